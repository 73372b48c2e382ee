"""What scripts that run programs share: a program's figures, and the file of a result."""

import json
import pathlib
import subprocess
import tempfile


def figures_of(command):
    """Runs a program and returns what it writes to --json."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run.json"
        subprocess.run([*command, "--json", str(out)], check=True, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text(encoding="utf-8"))


def write_result(folder, name, result):
    path = pathlib.Path(folder) / name
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return path
