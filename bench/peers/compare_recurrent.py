"""A training step of two LSTM or GRU layers (512 wide, 128 steps, a batch of 16, f32) in Headroom and PyTorch in turn, on
one machine, in one go: pairs, and the median of their ratios. Machines are shared and their speed drifts, so only ratios
of neighbours count.

    python3 bench/peers/compare_recurrent.py --bench build/release/bench/nn/nn_recurrent_bench --out bench/results
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from runs import cpu_name, write_result  # noqa: E402


def run_ours(bench, kind):
    """Of both settings: gates kept, and made again from the states of the square root of time."""
    command = [bench, f"--benchmark_filter=^{kind.capitalize()}/", "--benchmark_format=json"]
    command += ["--benchmark_min_time=0.5", "--benchmark_repetitions=5", "--benchmark_report_aggregates_only=true"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["benchmarks"]
    medians = [x for x in found if x["aggregate_name"] == "median"]
    return [{"seconds": x["real_time"] / 1e3, "cpu_seconds": x["cpu_time"] / 1e3, "peak_bytes": int(x["peak"]),
             "kept_bytes": int(x["kept"])} for x in medians]


def run_torch(kind, threads):
    script = pathlib.Path(__file__).with_name("recurrent_torch.py")
    command = [sys.executable, str(script), "--kind", kind, "--threads", str(threads)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(output)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--pairs", type=int, default=5)
    flags = parser.parse_args()
    threads = 2  # the benchmark's
    result = {
        "what": "a training step of two LSTM or GRU layers in Headroom and PyTorch eager, alternating",
        "cpu": cpu_name(),
        "threads": threads,
        "load_average": os.getloadavg()[1],
    }
    for kind in ("lstm", "gru"):
        pairs = []
        for number in range(flags.pairs):
            kept, again = run_ours(flags.bench, kind)
            torch = run_torch(kind, threads)
            pairs.append({"headroom": kept["seconds"], "with_checkpoints": again["seconds"], "torch": torch["seconds"],
                          "headroom_cpu": kept["cpu_seconds"], "with_checkpoints_cpu": again["cpu_seconds"]})
            print(f"{kind} {number + 1}/{flags.pairs}: {pairs[-1]}", flush=True)
        result["torch"] = torch["torch"]
        result[kind] = {
            "pairs_seconds": pairs,
            "median_speed_ratio": statistics.median(x["torch"] / x["headroom"] for x in pairs),
            "median_speed_ratio_with_checkpoints": statistics.median(x["torch"] / x["with_checkpoints"] for x in pairs),
            "median_time_of_checkpoints": statistics.median(x["with_checkpoints"] / x["headroom"] for x in pairs),
            "median_cpu_time_of_checkpoints": statistics.median(
                x["with_checkpoints_cpu"] / x["headroom_cpu"] for x in pairs),
            "peak_bytes": kept["peak_bytes"],
            "peak_bytes_with_checkpoints": again["peak_bytes"],
            "peak_bytes_torch": torch["peak_bytes"],
            "kept_bytes": kept["kept_bytes"],
            "kept_bytes_with_checkpoints": again["kept_bytes"],
        }
    print(write_result(flags.out, "recurrent_torch.json", result))


if __name__ == "__main__":
    main()
