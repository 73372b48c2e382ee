"""Trains `train_images --model small` by its defaults with several seeds and writes down what it reached: the share of
right images of validation, and how long it took. On a machine that does other work as well, the wall clock says less than
the time of the processors; half of that is what two idle cores would need if both were always busy.

    python3 bench/train_images_seeds.py --data FOLDER --train-images build/release/examples/train_images --out bench/results
"""

import argparse
import datetime
import os
import statistics

from runs import timed_figures_of, write_result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="folder with MNIST's t10k-* files")
    parser.add_argument("--train-images", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    flags = parser.parse_args()
    runs = []
    for seed in flags.seeds:
        command = [flags.train_images, "--data", flags.data, "--threads", "2", "--seed", str(seed)]
        runs.append({"seed": seed, "load_before": os.getloadavg()[0], **timed_figures_of(command)})
        print(f"seed {seed}: {100 * runs[-1]['val_accuracy']:.1f}%, {runs[-1]['wall_seconds']:.0f} s, of the processors "
              f"{runs[-1]['cpu_seconds']:.0f} s", flush=True)
    result = {
        "what": "train_images --model small by its defaults, with 2 threads: 9,000 of MNIST's t10k images to train on, 1,000 "
                "others to validate; the machine does other work as well (load_before)",
        "date": datetime.date.today().isoformat(),
        **{f"mean_{key}": statistics.mean(run[key] for run in runs)
           for key in ("val_accuracy", "wall_seconds", "cpu_seconds_per_core")},
        "runs": runs,
    }
    path = write_result(flags.out, "images_small_seeds.json", result)
    print(f"mean {100 * result['mean_val_accuracy']:.2f}%, written to {path}")


if __name__ == "__main__":
    main()
