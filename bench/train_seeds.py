"""Trains a program's default configuration with several seeds and writes down what it reached, what memory was predicted and
measured, and how long it took. On a machine that does other work as well (load_before), the wall clock says less than the
time of the processors; half of that is what two idle cores would need if both were always busy.

    python3 bench/train_seeds.py segmentation --examples build/release/examples --out bench/results
    python3 bench/train_seeds.py images --data FOLDER --examples build/release/examples --out bench/results
    python3 bench/train_seeds.py gpt_small --data FILE --examples build/release/examples --out bench/results
"""

import argparse
import os
import statistics

from runs import timed_figures_of, write_result

TEXT = "train_text --model {} by its defaults, over the whole validation split of the text"
# The program and its flags, the figure that counts, what it is.
CONFIGURATIONS = {
    "images": (["train_images"], "val_accuracy",
               "train_images --model small by its defaults: 9,000 of MNIST's t10k images to train on, 1,000 others to validate"),
    "segmentation": (["train_segmentation"], "mean_iou",
                     "train_segmentation by its defaults: U-Net on drawn clouds of 256 x 256 pixels, 100 others to validate"),
    "detection": (["train_detection"], "ap50",
                  "train_detection by its defaults: Mask R-CNN with a ResNet-18 FPN on drawn shapes of 128 x 128 pixels, COCO's "
                  "AP50 over 100 others"),
    "gpt_small": (["train_gpt"], "val_loss",
                  "train_gpt in its default configuration (nanoGPT's for a CPU), loss over the whole validation split"),
    "lstm": (["train_text", "--model", "lstm"], "val_loss", TEXT.format("lstm")),
    "gru": (["train_text", "--model", "gru"], "val_loss", TEXT.format("gru")),
    "bert": (["train_text", "--model", "bert"], "val_accuracy", TEXT.format("bert")),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=list(CONFIGURATIONS))
    parser.add_argument("--examples", required=True, help="folder with the programs")
    parser.add_argument("--data", help="what images and the models of text train on: MNIST's t10k-* files, a text")
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=2)
    flags = parser.parse_args()
    (program, *options), metric, what = CONFIGURATIONS[flags.what]
    data = ["--data", flags.data] if flags.data else []
    runs = []
    for seed in flags.seeds:
        command = [os.path.join(flags.examples, program), *options, *data, "--threads", str(flags.threads), "--seed", str(seed)]
        runs.append({"seed": seed, "load_before": os.getloadavg()[0], **timed_figures_of(command)})
        print(f"seed {seed}: {metric} {runs[-1][metric]:.4f}, {runs[-1]['wall_seconds']:.0f} s, of the processors "
              f"{runs[-1]['cpu_seconds']:.0f} s", flush=True)
    result = {
        "what": what,
        "threads": flags.threads,
        **{f"mean_{key}": statistics.mean(run[key] for run in runs) for key in (metric, "wall_seconds", "cpu_seconds_per_core")},
        "runs": runs,
    }
    print(write_result(flags.out, f"{flags.what}_seeds.json", result))


if __name__ == "__main__":
    main()
