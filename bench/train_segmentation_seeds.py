"""Trains train_segmentation's default configuration, a U-Net on clouds that it draws, with several seeds and writes down
what it reached: the mean IoU over 100 held-out clouds, the time that it took, the memory predicted and measured.

    python3 bench/train_segmentation_seeds.py --train-segmentation build/release/examples/train_segmentation \\
        --out bench/results
"""

import argparse
import datetime
import os
import statistics

from runs import timed_figures_of, write_result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-segmentation", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    flags = parser.parse_args()
    runs = []
    for seed in flags.seeds:
        command = [flags.train_segmentation, "--threads", "2", "--seed", str(seed)]
        runs.append({"seed": seed, "load_before": os.getloadavg()[0], **timed_figures_of(command)})
        print(f"seed {seed}: mean IoU {100 * runs[-1]['mean_iou']:.2f}%, {runs[-1]['wall_seconds']:.0f} s, of the "
              f"processors {runs[-1]['cpu_seconds']:.0f} s", flush=True)
    result = {
        "what": "train_segmentation by its defaults with 2 threads: U-Net on drawn clouds of 256 x 256 pixels, 100 others to "
                "validate; the machine does other work as well (load_before)",
        "date": datetime.date.today().isoformat(),
        **{f"mean_{key}": statistics.mean(run[key] for run in runs)
           for key in ("mean_iou", "wall_seconds", "cpu_seconds_per_core")},
        "runs": runs,
    }
    path = write_result(flags.out, "segmentation_seeds.json", result)
    print(f"mean {100 * result['mean_mean_iou']:.2f}%, written to {path}")


if __name__ == "__main__":
    main()
