"""Trains train_gpt's default configuration in bf16 with its residual stream in f32 and in bf16, several seeds each, and
writes down the losses over the whole validation split and the peaks.

    python3 bench/residual_stream.py --data FILE --train-gpt build/release/examples/train_gpt --out bench/results
"""

import argparse
import statistics

from runs import figures_of, write_result

STREAMS = {"f32": [], "bf16": ["--half-residual"]}
FIGURES = ("val_loss", "train_loss", "peak_bytes_allocated", "peak_bytes_predicted", "steps", "state_sha256")


def train(program, data, seed, steps, flags):
    figures = figures_of(
        [program, "--data", data, "--dtype", "bf16", "--seed", str(seed), "--steps", str(steps), *flags])
    return {name: figures[name] for name in FIGURES}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--train-gpt", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=2000)
    flags = parser.parse_args()
    runs = {stream: [] for stream in STREAMS}
    for seed in flags.seeds:
        for stream, more in STREAMS.items():
            runs[stream].append({"seed": seed, **train(flags.train_gpt, flags.data, seed, flags.steps, more)})
            print(f"seed {seed}, stream in {stream}: validation loss {runs[stream][-1]['val_loss']:.4f}", flush=True)
    means = {stream: statistics.mean(run["val_loss"] for run in of) for stream, of in runs.items()}
    differences = [half["val_loss"] - full["val_loss"] for half, full in zip(runs["bf16"], runs["f32"])]
    result = {
        "what": "train_gpt --dtype bf16 in its default configuration, on a CPU: the residual stream in f32 and, with "
                "--half-residual, in bf16; loss over the whole validation split",
        "mean_val_loss": means,
        "difference_of_means": means["bf16"] - means["f32"],
        "largest_difference_of_a_seed": max(differences, key=abs),
        "runs": runs,
    }
    path = write_result(flags.out, "residual_stream.json", result)
    print(f"{means}, written to {path}")


if __name__ == "__main__":
    main()
