"""The memory of a U-Net of base width 64 on images of 1400 x 2100 pixels, four of them in a step by accumulation, for each
way of recomputing: rehearsed for a GPU of 10.76 GiB. With --step also one real step on this machine's processor, whose
measured peak must be the predicted one (10 GB and some two minutes for each image).

    python3 bench/unet_large_images.py --train-segmentation build/release/examples/train_segmentation --out bench/results
"""

import argparse
import subprocess

from runs import figures_of, timed_figures_of, write_result

GPU = "10.76GiB"
BYTES = int(10.76 * 2**30)
CASE = ["--height", "1400", "--width", "2100", "--base-width", "64", "--batch", "1", "--validation", "1", "--steps", "1"]


def rehearse(program, way):
    """The peak on a GPU where it is sure to fit, and whether this one takes it."""
    command = [program, *CASE, "--accumulate", "4", "--recompute", way, "--device", "dry"]
    figures = figures_of([*command, "--gpu-memory", "40GiB"])
    tried = subprocess.run([*command, "--gpu-memory", GPU], capture_output=True, text=True, check=False)
    if tried.returncode not in (0, 3):
        raise SystemExit(tried.stderr)
    return {"recompute": way, "fits": tried.returncode == 0,
            **{key: figures[key] for key in ("peak_bytes_predicted", "peak_bytes_reserved_predicted", "resident_bytes")}}


def step(program, images):
    command = [program, *CASE, "--accumulate", str(images), "--recompute", "cheap", "--threads", "2", "--memory-limit", GPU]
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
        "what": "U-Net, base width 64, f32, AdamW, 1400 x 2100 pixels: predicted for four micro-batches of one image on a GPU "
                f"of {GPU} ({BYTES} bytes); the step is on a processor",
        "rehearsed": [rehearse(flags.train_segmentation, way) for way in ("none", "cheap", "blocks")],
    }
    for run in result["rehearsed"]:
        print(f"{run['recompute']}: {run['peak_bytes_predicted'] / 1e9:.2f} GB, {'fits' if run['fits'] else 'does not fit'}",
              flush=True)
    if flags.step:
        result["step"] = step(flags.train_segmentation, flags.step)
        print(f"a step of {flags.step}: {result['step']['peak_bytes_allocated']} bytes, as predicted")
    print(f"written to {write_result(flags.out, 'unet_large_images.json', result)}")


if __name__ == "__main__":
    main()
