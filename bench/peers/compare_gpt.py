"""train_gpt and PyTorch in turn, on one machine, in one go: pairs, and the median of their ratios. Machines are shared
and their speed drifts, so only ratios of neighbours count.

    python3 bench/peers/compare_gpt.py --data FILE --train-gpt build/release/examples/train_gpt --out bench/results
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from runs import cpu_name, figures_of, write_result  # noqa: E402

SIZES = {
    "small": ["--layers", "4", "--heads", "4", "--width", "128", "--block", "64", "--batch", "12"],
    "large": ["--layers", "4", "--heads", "12", "--width", "768", "--block", "256", "--batch", "4"],
}
STEPS = {"small": "300", "large": "12"}


def run_ours(flags, size):
    # Ends as Ctrl-C would: the loss over the whole validation split is not what is timed here.
    steps = STEPS[size]
    command = [flags.train_gpt, "--data", flags.data, *SIZES[size], "--steps", str(int(steps) + 1)]
    return figures_of([*command, "--stop-after", steps, "--threads", str(flags.threads), *flags.ours])


def run_torch(flags, size):
    script = pathlib.Path(__file__).with_name("gpt_torch.py")
    command = [sys.executable, str(script), "--data", flags.data, *SIZES[size], "--steps", STEPS[size]]
    command += ["--threads", str(flags.threads)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--train-gpt", required=True)
    parser.add_argument("--out", required=True, help="folder for the result files")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--ours", nargs="*", default=[], help="further flags for train_gpt, without the dashes")
    flags = parser.parse_args()
    flags.ours = [f"--{name}" if name[0].isalpha() else name for name in flags.ours]
    for size in flags.sizes:
        pairs = []
        for number in range(flags.pairs):
            ours = run_ours(flags, size)
            torch = run_torch(flags, size)
            pairs.append({"headroom": ours["tokens_per_second"], "torch": torch["tokens_per_second"]})
            ratio = pairs[-1]["headroom"] / pairs[-1]["torch"]
            print(f"{size} {number + 1}/{flags.pairs}: {pairs[-1]['headroom']:.0f} and {pairs[-1]['torch']:.0f} tokens/s, {ratio:.2f}")
        result = {
            "what": f"training throughput of train_gpt and PyTorch eager with fused AdamW, {size} size, alternating",
            "flags": SIZES[size] + flags.ours,
            "steps": int(STEPS[size]),
            "cpu": cpu_name(),
            "threads": flags.threads,
            "torch": torch["torch"],
            "pairs_tokens_per_second": pairs,
            "median_ratio": statistics.median(pair["headroom"] / pair["torch"] for pair in pairs),
            "peak_bytes_allocated": ours["peak_bytes_allocated"],
        }
        path = write_result(flags.out, f"gpt_{size}_torch.json", result)
        print(f"{size}: median ratio {result['median_ratio']:.2f}, written to {path}")


if __name__ == "__main__":
    main()
