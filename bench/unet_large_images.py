"""The memory of a U-Net of base width 64 on images of 1400 x 2100 pixels, four of them in a step: by accumulation for each way of
recomputing, and by plans in f32 and f16, rehearsed for an RTX 2080 Ti, a card of 10.76 GiB. With --step also one real step on
this machine's processor, whose measured peak must be the predicted one (10 GB and some two minutes for each image).

    python3 bench/unet_large_images.py --train-segmentation build/release/examples/train_segmentation --out bench/results
"""

import argparse
import subprocess

from runs import figures_of, timed_figures_of, write_result

GPU = "RTX 2080 Ti"
CASE = ["--height", "1400", "--width", "2100", "--base-width", "64", "--validation", "1", "--steps", "1"]


def rehearse(program, way):
    """The peak on a GPU where it is sure to fit, and whether this one takes it."""
    command = [program, *CASE, "--batch", "1", "--accumulate", "4", "--recompute", way, "--device", "dry", "--gpu", GPU]
    figures = figures_of([*command, "--gpu-memory", "40GiB"])
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.returncode not in (0, 3):
        raise SystemExit(tried.stderr)
    return {"recompute": way, "fits": tried.returncode == 0,
            **{key: figures[key] for key in ("peak_bytes_predicted", "peak_bytes_reserved_predicted", "resident_bytes")}}


def plan(program, dtype):
    """For all of the memory that a training may take."""
    figures = figures_of([program, *CASE, "--batch", "4", "--split-batch", "--dtype", dtype, "--device", "dry", "--gpu", GPU])
    return {"dtype": dtype, **{key: figures[key] for key in (
        "batch", "accumulate", "budget_bytes", "floor_bytes", "peak_bytes_predicted", "peak_bytes_reserved_predicted",
        "replayed_ops_predicted", "step_seconds_predicted")}}


def step(program, images):
    command = [program, *CASE, "--batch", "1", "--accumulate", str(images), "--recompute", "cheap", "--threads", "2"]
    figures = timed_figures_of(command)
    if figures["peak_bytes_allocated"] != figures["peak_bytes_predicted"]:
        raise SystemExit(f"{figures['peak_bytes_predicted']} bytes predicted, {figures['peak_bytes_allocated']} measured")
    keys = ("peak_bytes_predicted", "peak_bytes_allocated", "peak_bytes_reserved_predicted", "peak_bytes_reserved",
            "train_loss", "wall_seconds", "cpu_seconds")
    return {"recompute": "cheap", "images": images, **{key: figures[key] for key in keys}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-segmentation", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--step", type=int, default=0, help="a real step of so many images, too")
    flags = parser.parse_args()
    result = {
        "what": f"U-Net, base width 64, AdamW, four images of 1400 x 2100 pixels, predicted for an {GPU}: f32 by four micro-batches of "
                "one image, and plans; the step is on a processor",
        "rehearsed": [rehearse(flags.train_segmentation, way) for way in ("none", "cheap", "blocks")],
        "planned": [plan(flags.train_segmentation, dtype) for dtype in ("f32", "f16")],
    }
    for run in result["rehearsed"]:
        print(f"{run['recompute']}: {run['peak_bytes_predicted'] / 1e9:.2f} GB, {'fits' if run['fits'] else 'does not fit'}",
              flush=True)
    for run in result["planned"]:
        print(f"{run['dtype']}: {run['accumulate']} x {run['batch']}, {run['peak_bytes_reserved_predicted'] / 1e9:.2f} GB reserved", flush=True)
    if flags.step:
        result["step"] = step(flags.train_segmentation, flags.step)
        print(f"a step of {flags.step}: {result['step']['peak_bytes_allocated']} bytes, as predicted")
    print(f"written to {write_result(flags.out, 'unet_large_images.json', result)}")


if __name__ == "__main__":
    main()
