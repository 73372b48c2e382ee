"""What a training makes beside other busy processes, with one thread and with one per processor: train_gpt in turn in all
ways, tokens per second and their medians. --before names a program to compare with, run in the same turns.

    python3 bench/busy_machine.py --data FILE --train-gpt build/release/examples/train_gpt --out bench/results
"""

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys

from runs import figures_of, write_result


@contextlib.contextmanager
def busy(count):
    """As many processes that compute without end."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--train-gpt", required=True)
    parser.add_argument("--before", help="another train_gpt, such as one of an earlier version")
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    flags = parser.parse_args()

    def tokens_per_second(program, threads):
        # Stopped before the end, so that no validation follows.
        command = [program, "--data", flags.data, "--threads", str(threads), "--steps", str(flags.steps + 1)]
        return figures_of([*command, "--stop-after", str(flags.steps)])["tokens_per_second"]

    programs = {"now": flags.train_gpt}
    if flags.before:
        programs["before"] = flags.before
    runs = {}
    for _ in range(flags.rounds):
        for others, threads, name in itertools.product((0, 1), (1, os.cpu_count()), programs):
            with busy(others):
                speed = tokens_per_second(programs[name], threads)
            key = f"{name}, {threads} threads, {others} busy processes"
            load = os.getloadavg()[0]  # of others: with it, no run is a quiet one
            runs.setdefault(key, []).append({"tokens_per_second": speed, "load": load})
            print(f"{key}: {speed:.0f} tokens/s, load {load:.1f}", flush=True)
    result = {
        "what": f"train_gpt's default configuration, {flags.steps} steps, tokens/s beside busy processes",
        "processors": os.cpu_count(),
        "median": {key: statistics.median(run["tokens_per_second"] for run in all_runs) for key, all_runs in runs.items()},
        "runs": runs,
    }
    write_result(flags.out, "busy_machine.json", result)
    print(json.dumps(result["median"], indent=2))


if __name__ == "__main__":
    main()
