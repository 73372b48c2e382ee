"""What scripts that run programs share: a program's figures, the processor's name, and the file of a result."""

import datetime
import json
import pathlib
import platform
import resource
import subprocess
import sys
import tempfile
import time


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


def write_result(folder, name, result):
    """`result` says what it is; when and by which script is put to it."""
    path, script = pathlib.Path(folder) / name, pathlib.Path(sys.argv[0]).resolve()
    head = {"what": result["what"], "date": datetime.date.today().isoformat(),
            "command": str(script.relative_to(script.parents[2 if script.parent.name == "peers" else 1]))}
    path.write_text(json.dumps({**head, **result}, indent=2) + "\n", encoding="utf-8")
    return path
