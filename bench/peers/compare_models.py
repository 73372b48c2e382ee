"""Training steps of whole models in Headroom, keeping everything and with recompute_cheap, and in PyTorch eager, in turn, on
one machine, in one go: pairs, and the median of their ratios. Machines are shared and their speed drifts, so only ratios of
neighbours count. Peaks are compared as they are, and less what both have to hold: weights, moments and gradients.

    python3 bench/peers/compare_models.py --model-step build/release/bench/gpu/model_step --out bench/results
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from runs import cpu_name, write_result  # noqa: E402

UNET = ["--batch", "1", "--height", "384", "--width", "384", "--classes", "4"]
SIZES = {
    **{f"resnet{layers}": ["--batch", "8", "--height", "224", "--width", "224"] for layers in (18, 34, 50, 101, 152)},
    "unet": UNET,
    "unet_bilinear": UNET,
    **{name: ["--batch", "4", "--height", "224", "--width", "224"] for name in ("vgg16", "vgg16_bn")},
    "maskrcnn": ["--batch", "1", "--height", "800", "--width", "1216", "--classes", "91"],
    "bert": ["--batch", "4", "--height", "128"],
    "gpt2": ["--batch", "4", "--height", "128"],
}


def json_of(command):
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(output)


def torch_step(common, *more):
    """A training by train.py; the tokens of a sequence are model_step's height."""
    script = pathlib.Path(__file__).with_name("train.py")
    block = ["--block", common[common.index("--height") + 1]]
    result = json_of([sys.executable, str(script), *common, *block, "--optimizer", "sgd", *more])
    return {**result, "peak_bytes": result["peak_bytes_allocated"], "seconds": result["step_seconds"]}


def compare(model, flags):
    common = ["--model", model, *SIZES[model], "--threads", str(flags.threads)]
    cheap = ["--recompute", "cheap"]
    one = ["--steps", "1", "--warmup", "1"]
    rows = {"headroom": json_of([flags.model_step, *common, *one]), "cheap": json_of([flags.model_step, *common, *cheap, *one]),
            "torch": torch_step(common, "--steps", "1")}
    assert len({row["parameters"] for row in rows.values()}) == 1, rows
    assert all(rows[name]["peak_bytes"] == rows[name]["predicted_bytes"] for name in ("headroom", "cheap")), rows
    held = 3 * 4 * rows["torch"]["parameters"]  # weights, momentum and gradients
    peaks = {name: row["peak_bytes"] for name, row in rows.items()}
    result = {
        "torch": rows["torch"]["framework"],
        "size": " ".join(SIZES[model]),
        "peak_bytes": peaks,
        "peak_ratio": peaks["headroom"] / peaks["torch"],
        "peak_ratio_cheap": peaks["cheap"] / peaks["torch"],
        "weights_momentum_gradients_bytes": held,
        "peak_ratio_without_them": (peaks["headroom"] - held) / (peaks["torch"] - held),
        "peak_ratio_without_them_cheap": (peaks["cheap"] - held) / (peaks["torch"] - held),
    }
    if model == "maskrcnn":
        result["torch_peak_bytes_with_few_masks"] = torch_step(common, "--steps", "1", "--few-masks")["peak_bytes"]
    steps = ["--steps", str(flags.steps)]
    pairs = []
    for number in range(flags.pairs):
        step = {"headroom": json_of([flags.model_step, *common, *steps]),
                "cheap": json_of([flags.model_step, *common, *cheap, *steps]),
                "torch": torch_step(common, "--steps", str(2 * flags.steps), "--no-peak")}  # the second half is timed
        pairs.append({name: row["seconds"] for name, row in step.items()})
        print(f"{model} {number + 1}/{flags.pairs}: {pairs[-1]}", flush=True)
    if pairs:
        result |= {
            "pairs_seconds": pairs,
            "median_speed_ratio": statistics.median(x["torch"] / x["headroom"] for x in pairs),
            "median_speed_ratio_cheap": statistics.median(x["torch"] / x["cheap"] for x in pairs),
            "median_time_of_cheap": statistics.median(x["cheap"] / x["headroom"] for x in pairs),
        }
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-step", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--models", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--pairs", type=int, default=5, help="0: peaks alone")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    flags = parser.parse_args()
    path = pathlib.Path(flags.out) / "models_torch.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    result |= {
        "what": "a training step (forward, gradients, SGD with momentum; f32, channels-last) of whole models in Headroom "
                "and PyTorch eager, alternating",
        "cpu": cpu_name(),
        "threads": flags.threads,
    }
    for model in flags.models:
        result[model] = compare(model, flags)
        print(write_result(flags.out, "models_torch.json", result), flush=True)


if __name__ == "__main__":
    main()
