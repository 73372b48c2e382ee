#!/usr/bin/env python3
"""Has NVIDIA's cuDNN plan all convolutions of some models for GPUs that are not there, an H200 and an RTX 2080 Ti (compute
capability 7.5), and writes what it found: which have a plan that keeps our promises, and the scratch that it takes. No plan
runs, and nothing is timed.

usage: bench/convolution_plans.py [--build build/cuda] [--shapes]

--build FOLDER  of a build with nvcc and the headers of cuDNN's frontend, whose kernels_cuda_cudnn_convolution_test plans
--shapes        writes tests/kernels/convolutions/*.txt anew before, by build/ci/bench/gpu/model_step
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pages import between_marks  # noqa: E402
from runs import write_result  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = ROOT / "tests" / "kernels" / "convolutions"
RESULTS = ROOT / "bench" / "results" / "convolution_plans.json"
PAGE = ROOT / "docs" / "convolution_plans.md"
COMMON = ["--device", "dry", "--convolutions", "--dtype", "bf16"]
MODELS = {
    "resnet50": ("ResNet-50, 256 images of 224 x 224", "--model resnet50 --batch 256"),
    "unet": ("U-Net, 8 images of 512 x 512", "--model unet --batch 8 --height 512 --width 512 --classes 4"),
    "unet_large": ("U-Net, an image of 1400 x 2100", "--model unet --batch 1 --height 1400 --width 2100 --classes 2"),
    "maskrcnn": ("Mask R-CNN, 2 images of 800 x 1216", "--model maskrcnn --batch 2 --height 800 --width 1216 --classes 91"),
}
# As the test names them: the models above in bf16 on an H200, and what it plans for the other card.
PLANNED = {**{name: f"{title}; bf16, H200" for name, (title, _) in MODELS.items()},
           "resnet50_75_f16": f"{MODELS['resnet50'][0]}; f16, RTX 2080 Ti",
           "unet_large_75_f16": f"{MODELS['unet_large'][0]}; f16, RTX 2080 Ti",
           "unet_large_75_f32": f"{MODELS['unet_large'][0]}; f32, RTX 2080 Ti"}
PASSES = ["forward", "data gradient", "weight gradient"]


def kind(convolution):
    words = convolution.split()
    return PASSES[int(words[0])] + (", added" if words[4] == "true" else "")


def table(results):
    lines = ["| model | pass | shapes | planned | largest scratch | reserved for it |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for name, title in PLANNED.items():
        rows = [row for row in results["plans"] if row["model"] == name]
        for what in sorted({kind(row["convolution"]) for row in rows}, key=lambda text: (PASSES.index(text.split(",")[0]), text)):
            some = [row for row in rows if kind(row["convolution"]) == what]
            planned = [row for row in some if not row["plan"].startswith("refused")]
            largest = max(planned, key=lambda row: row["scratch"], default={"scratch": 0, "reserved": 0})
            lines.append(f"| {title} | {what} | {len(some)} | {len(planned)} | {largest['scratch'] / 1e6:.1f} MB | "
                         f"{largest['reserved'] / 1e6:.1f} MB |")
    refused = [row for row in results["plans"] if row["plan"].startswith("refused")]
    lines += ["", f"By {results['library']}. " + (f"Refused: {len(refused)}, which own kernels compute." if refused else "None is refused.")]
    lines += [f"- {row['model']}: `{row['convolution']}`: {row['plan']}" for row in refused]
    return "\n".join(lines)


def with_table(page, results):
    return between_marks(page, "plans: figures of bench/convolution_plans.py", table(results), str(PAGE))


def read_results():
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "cuda")
    parser.add_argument("--shapes", action="store_true")
    flags = parser.parse_args()
    if flags.shapes:
        for name, (_, words) in MODELS.items():
            printed = subprocess.run([ROOT / "build/ci/bench/gpu/model_step", *COMMON, *words.split()], capture_output=True, text=True,
                                     check=True).stdout
            (SHAPES / f"{name}.txt").write_text(printed, encoding="utf-8")
    program = flags.build / "tests" / "kernels" / "kernels_cuda_cudnn_convolution_test"
    run = subprocess.run([program], env={**os.environ, "HEADROOM_ALL_CONVOLUTIONS": "1"}, capture_output=True, text=True, check=False)
    rows = [line.split(" | ") for line in run.stdout.splitlines() if line.count(" | ") == 4]
    if not rows:
        sys.exit(f"bench/convolution_plans.py: nothing was planned:\n{run.stdout}{run.stderr}")
    library = re.search(r"^cuDNN .*$", run.stdout, re.MULTILINE)[0]
    results = {"what": "plans by NVIDIA's library for GPUs that are not there; nothing was run", "library": library,
               "plans": [{"model": model, "convolution": text, "plan": plan, "scratch": int(scratch), "reserved": int(reserved)}
                         for model, text, plan, scratch, reserved in rows]}
    write_result("", RESULTS, results)
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
