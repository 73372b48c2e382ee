"""Training steps of whole models in Headroom, keeping everything and with recompute_cheap, and in PyTorch eager, in turn, on
one machine, in one go: pairs, and the median of their ratios. Machines are shared and their speed drifts, so only ratios of
neighbours count. Peaks are compared as they are, and less what both have to hold: weights, moments and gradients.

    python3 bench/peers/compare_models.py --model-step build/release/bench/gpu/model_step --out bench/results
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys

from compare_gpt import cpu_name

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import runs  # noqa: E402

SIZES = {
    "resnet50": ["--batch", "8", "--height", "224", "--width", "224"],
    "unet": ["--batch", "1", "--height", "384", "--width", "384", "--classes", "4"],
    "vgg16": ["--batch", "4", "--height", "224", "--width", "224"],
    "bert": ["--batch", "4", "--height", "128"],
}


def json_of(command):
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(output)


def compare(model, flags):
    common = ["--model", model, *SIZES[model], "--threads", str(flags.threads), "--steps", str(flags.steps)]
    torch_step = [sys.executable, str(pathlib.Path(__file__).with_name("models_torch.py")), *common]
    peak = json_of([*torch_step, "--steps", "1", "--warmup", "1"])
    pairs = []
    for number in range(flags.pairs):
        kept = json_of([flags.model_step, *common])
        cheap = json_of([flags.model_step, *common, "--recompute", "cheap"])
        torch = json_of([*torch_step, "--no-peak"])
        pairs.append({"headroom": kept["seconds"], "cheap": cheap["seconds"], "torch": torch["seconds"]})
        print(f"{model} {number + 1}/{flags.pairs}: {pairs[-1]}", flush=True)
    assert kept["parameters"] == torch["parameters"], (kept, torch)
    assert all(x["peak_bytes"] == x["predicted_bytes"] for x in (kept, cheap)), (kept, cheap)
    held = 3 * 4 * kept["parameters"]  # weights, momentum and gradients
    peaks = {"headroom": kept["peak_bytes"], "cheap": cheap["peak_bytes"], "torch": peak["peak_bytes"]}
    return {
        "torch": torch["framework"],
        "size": " ".join(SIZES[model]),
        "pairs_seconds": pairs,
        "median_speed_ratio": statistics.median(x["torch"] / x["headroom"] for x in pairs),
        "median_speed_ratio_cheap": statistics.median(x["torch"] / x["cheap"] for x in pairs),
        "median_time_of_cheap": statistics.median(x["cheap"] / x["headroom"] for x in pairs),
        "peak_bytes": peaks,
        "peak_ratio": peaks["headroom"] / peaks["torch"],
        "peak_ratio_cheap": peaks["cheap"] / peaks["torch"],
        "weights_momentum_gradients_bytes": held,
        "peak_ratio_without_them": (peaks["headroom"] - held) / (peaks["torch"] - held),
        "peak_ratio_without_them_cheap": (peaks["cheap"] - held) / (peaks["torch"] - held),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-step", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--models", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    flags = parser.parse_args()
    path = pathlib.Path(flags.out) / "models_torch.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    result |= {
        "what": "a training step (forward, gradients, SGD with momentum; f32, channels-last) of whole models in Headroom "
                "and PyTorch eager, alternating",
        "date": datetime.date.today().isoformat(),
        "cpu": cpu_name(),
        "threads": flags.threads,
    }
    for model in flags.models:
        result[model] = compare(model, flags)
        print(runs.write_result(flags.out, "models_torch.json", result), flush=True)


if __name__ == "__main__":
    main()
