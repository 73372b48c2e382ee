"""Trains train_detection's default configuration, Mask R-CNN on drawn shapes, with several seeds and writes down what it
reached: box and mask AP50 over 100 held-out images, losses, the memory predicted and measured, wall and processor time.

    python3 bench/train_detection_seeds.py --train-detection build/release/examples/train_detection --out bench/results
"""

import argparse
import datetime
import os
import resource
import statistics

from runs import figures_of, write_result


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-detection", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=2)
    flags = parser.parse_args()
    runs = []
    for seed in flags.seeds:
        before, load = processor_seconds(), os.getloadavg()[0]
        figures = figures_of([flags.train_detection, "--seed", str(seed), "--threads", str(flags.threads)])
        runs.append({"seed": seed, **figures, "processor_seconds": processor_seconds() - before,
                     "load_average_before": load, "load_average_after": os.getloadavg()[0]})
        print(f"seed {seed}: box AP50 {figures['ap50']:.4f}, mask AP50 {figures['mask_ap50']:.4f}")
    result = {
        "what": "train_detection in its default configuration (Mask R-CNN with a ResNet-18 FPN on drawn shapes of "
                "128 x 128 pixels), COCO's AP50 over 100 held-out images",
        "date": datetime.date.today().isoformat(),
        "threads": flags.threads,
        "mean_ap50": statistics.mean(run["ap50"] for run in runs),
        "runs": runs,
    }
    path = write_result(flags.out, "train_detection_seeds.json", result)
    print(f"mean {result['mean_ap50']:.4f}, written to {path}")


if __name__ == "__main__":
    main()
