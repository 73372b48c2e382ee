"""Convolutions of kernels_convolution_bench and PyTorch's in turn, on one machine, in one go: for each layer and pass the
median of the ratios of neighbours, of which each is the fastest of several runs. Both keep images and weights
channels-last. With one thread, what counts is its processor time, which other programs of a busy machine change little;
else the time that passes. Of `err` also the errors: ours, PyTorch's, and PyTorch's with row-major images, for which it has
other kernels.

    python3 bench/peers/compare_convolution.py --bench build/release/bench/kernels/kernels_convolution_bench
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from runs import write_result  # noqa: E402


def run_ours(flags, name):
    command = [flags.bench, f"--benchmark_filter=^{name}$", "--benchmark_min_time=0.01", f"--benchmark_repetitions={flags.runs}"]
    command += ["--benchmark_format=json"]
    environment = dict(os.environ, HEADROOM_THREADS=str(flags.threads))
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment).stdout
    runs = [run for run in json.loads(output)["benchmarks"] if run["run_type"] == "iteration"]
    clock = "cpu_time" if flags.threads == 1 else "real_time"
    run = min(runs, key=lambda run: run[clock])
    seconds = run[clock] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[run["time_unit"]]
    return seconds, run["FLOP/s"] * run["real_time"] / run[clock], run.get("error")


def torch_call(name, memory_format=torch.channels_last):
    """Functions that compute what the benchmark's name says, and its error in f32."""
    kind, dtype = re.match(r"\w+/(\w+)_(\w+)/", name).groups()
    size = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", name)}
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    draw = lambda *shape: torch.randn(*shape, dtype=dtype).to(memory_format=memory_format)
    x = draw(size["n"], size["in"], size["size"], size["size"])
    weight = draw(size["out"], size["in"] // size["groups"], size["kernel"], size["kernel"])
    stride, padding, groups = [size["stride"]] * 2, [size["padding"]] * 2, size["groups"]
    forward = lambda x, weight: torch.nn.functional.conv2d(x, weight, None, stride, padding, 1, groups)
    dy = torch.randn_like(forward(x, weight))
    mask = [kind == "data", kind == "weight", False]

    def compute(x, weight, dy):
        if kind == "forward":
            return forward(x, weight)
        gradients = torch.ops.aten.convolution_backward(
            dy, x, weight, None, stride, padding, [1, 1], False, [0, 0], groups, mask)
        return gradients[0 if kind == "data" else 1]

    def error():
        exact = compute(x.double(), weight.double(), dy.double())
        return ((compute(x, weight, dy) - exact).square().mean() / exact.square().mean()).sqrt().item()

    return lambda: compute(x, weight, dy), error


def run_torch(flags, call):
    clock = time.thread_time if flags.threads == 1 else time.perf_counter
    call()
    times = []
    for _ in range(flags.runs):
        start, count = clock(), 0
        while count == 0 or clock() - start < 0.01:
            call()
            count += 1
        times.append((clock() - start) / count)
    return min(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--filter", default="^convolve.*f32")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", help="file for the figures")
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    torch.manual_seed(1)
    listed = subprocess.run([flags.bench, "--benchmark_list_tests"], check=True, stdout=subprocess.PIPE, text=True).stdout
    results = []
    for name in [line for line in listed.split() if re.search(flags.filter, line)]:
        call, error = torch_call(name)
        ratios, speeds = [], []
        with torch.no_grad():
            for _ in range(flags.pairs):
                seconds, speed, own_error = run_ours(flags, name)
                ratios.append(run_torch(flags, call) / seconds)
                speeds.append(speed)
        results.append({"name": name, "ratio": statistics.median(ratios), "gflops": statistics.median(speeds) * 1e-9})
        text = f"{name}: {results[-1]['gflops']:.0f} GFLOP/s, {results[-1]['ratio']:.2f} times PyTorch"
        if own_error is not None:
            rows = torch_call(name, torch.contiguous_format)[1]()
            results[-1] |= {"error": own_error, "torch_error": error(), "torch_error_of_rows": rows}
            text += f"; error {own_error:.2e}, PyTorch's {error():.2e}, of row-major images {rows:.2e}"
        print(text, flush=True)
    print(f"geometric mean of {len(results)}: {math.exp(statistics.mean(math.log(r['ratio']) for r in results)):.2f}")
    if flags.json:
        result = {"what": "convolutions in Headroom and PyTorch, alternating", "torch": torch.__version__, "threads": flags.threads,
                  "pairs": flags.pairs, "layers": results}
        write_result("", flags.json, result)


if __name__ == "__main__":
    main()
