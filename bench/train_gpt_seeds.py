"""Trains train_gpt's default configuration with several seeds and writes down what it reached: the loss over the whole
validation split, the memory predicted and measured, the state's hash.

    python3 bench/train_gpt_seeds.py --data FILE --train-gpt build/release/examples/train_gpt --out bench/results
"""

import argparse
import datetime
import statistics

from runs import figures_of, write_result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--train-gpt", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=2000)
    flags = parser.parse_args()
    runs = []
    for seed in flags.seeds:
        command = [flags.train_gpt, "--data", flags.data, "--seed", str(seed), "--steps", str(flags.steps)]
        runs.append({"seed": seed, **figures_of(command)})
        print(f"seed {seed}: validation loss {runs[-1]['val_loss']:.4f}")
    result = {
        "what": "train_gpt in its default configuration (nanoGPT's for a CPU), loss over the whole validation split",
        "date": datetime.date.today().isoformat(),
        "mean_val_loss": statistics.mean(run["val_loss"] for run in runs),
        "runs": runs,
    }
    path = write_result(flags.out, "gpt_small_seeds.json", result)
    print(f"mean {result['mean_val_loss']:.4f}, written to {path}")


if __name__ == "__main__":
    main()
