"""What scripts that run programs share: a program's figures, the processor's name, and the file of a result."""

import datetime
import json
import math
import pathlib
import platform
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def figures_of(command):
    """Runs a program and returns what it writes to --json."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run.json"
        subprocess.run([*command, "--json", str(out)], check=True, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text(encoding="utf-8"))


def timed_figures_of(command):
    """The same, with how long it took: on a machine that does other work as well, half of the processors' time is about
    what two idle cores would need."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    figures = figures_of(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**figures, "wall_seconds": time.perf_counter() - start, "cpu_seconds": cpu, "cpu_seconds_per_core": cpu / 2}


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.processor()


def finite(value):
    """NaN and infinity, which are no JSON, become None in it."""
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def headed(result):
    """`finite`, with what each file of bench/results begins with: `what` it is, as the result says, the date, the command (the script
    that runs, unless the result names another one), and the commit."""
    command = result.get("command") or str(pathlib.Path(sys.argv[0]).resolve().relative_to(ROOT))
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"], capture_output=True,
                            text=True, check=False).stdout.strip()
    head = {"what": result["what"], "date": datetime.date.today().isoformat(), "command": command, "commit": commit or None}
    return finite({**head, **{name: value for name, value in result.items() if name not in head}})


def text_of(value, indent=""):
    """JSON as files of bench/results have it: a member of the whole, and a row of a list, is a line, so that a difference shows
    which rows are new."""
    deeper = indent + " "
    nested = isinstance(value, dict) and any(isinstance(member, (dict, list)) for member in value.values())
    if isinstance(value, dict) and (not indent or (nested and len(json.dumps(value)) > 160)):
        members = [f"{deeper}{json.dumps(name)}: {text_of(member, deeper)}" for name, member in value.items()]
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(row, (dict, list)) for row in value):
        return "[\n" + ",\n".join(deeper + json.dumps(row, ensure_ascii=False) for row in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


def write_result(folder, name, result):
    """`headed`. `name` may be a path of its own, below the folder "" or absolute."""
    path = pathlib.Path(folder) / name
    path.write_text(text_of(headed(result)) + "\n", encoding="utf-8")
    return path
