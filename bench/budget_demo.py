"""README's terminal: a training within a budget, the same without one, and one that is refused. The two that train end with the
same bits.

    python3 bench/budget_demo.py --train-gpt build/release/examples/train_gpt --out bench/results
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

from runs import ROOT, cpu_name, write_result

TRAINING = ("train_gpt", "--data", "LICENSE", "--layers", "12", "--steps", "20")
RUNS = (("--keep-batch", "--budget", "64MB", "--json", "planned.json"), ("--recompute", "none", "--json", "kept.json"),
        ("--keep-batch", "--budget", "40MB"))
FIGURES = ("state_sha256", "peak_bytes_predicted", "peak_bytes_allocated", "peak_bytes_reserved_predicted", "peak_bytes_reserved",
           "batch", "accumulate", "replayed_ops")


def run_of(program, words, folder):
    """What a run printed, without the lines of single steps, and its figures."""
    flags = [str(pathlib.Path(folder) / word) if word.endswith(".json") else word for word in words[1:]]
    ran = subprocess.run([program, *flags], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in (ran.stdout + ran.stderr).splitlines() if not line.startswith("step ") or "validation" in line]
    row = {"command": " ".join(words), "exit_code": ran.returncode, "lines": lines}
    files = [flag for flag in flags if flag.endswith(".json")]
    if ran.returncode == 0:
        figures = json.loads(pathlib.Path(files[0]).read_text(encoding="utf-8"))
        row |= {name: figures[name] for name in FIGURES}
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-gpt", required=True, help="the program")
    parser.add_argument("--out", required=True, help="folder for the result file")
    flags = parser.parse_args()
    program = str(pathlib.Path(flags.train_gpt).resolve())
    with tempfile.TemporaryDirectory() as folder:
        rows = [run_of(program, (*TRAINING, *words), folder) for words in RUNS]
    planned, kept, refused = rows
    assert planned["state_sha256"] == kept["state_sha256"] and planned["peak_bytes_predicted"] == planned["peak_bytes_allocated"]
    assert refused["exit_code"] != 0
    write_result(flags.out, "budget_demo.json", {"what": "a training within a budget, the same without one, and one that is refused",
                                                 "cpu": cpu_name(), "rows": rows})


if __name__ == "__main__":
    main()
