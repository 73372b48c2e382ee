"""Replays allocation traces (bench/traces/format.md) on torch.cuda: what PyTorch's allocator reserves for what is live,
beside replay_traces. Needs a GPU. PyTorch is a peer to compare with, not a dependency: pip install torch==2.15.0.

    python3 bench/peers/allocator_torch.py --json torch.json bench/traces/recorded/*.trace.gz
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python3 bench/peers/allocator_torch.py ...
    PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync python3 bench/peers/allocator_torch.py ...
"""

import argparse
import dataclasses
import gzip
import json
import os
import sys
import time


@dataclasses.dataclass
class Trace:
    name: str = ""
    operations: list = dataclasses.field(default_factory=list)

    def steps(self):
        return sum(operation[0] == "s" for operation in self.operations)

    def streams(self):
        found = [0]
        for letter, *numbers in self.operations:
            if letter == "a":
                found.append(numbers[2])
            elif letter == "u":
                found.append(numbers[1])
            elif letter == "w":
                found.extend(numbers)
        return max(found) + 1

    def peak_live(self, from_step=0):
        """Bytes as requested, from the begin of a step on; 0 is the preparation."""
        sizes, live, peak, step = {}, 0, 0, 0
        for letter, *numbers in self.operations:
            if letter == "s":
                step += 1
            elif letter == "a":
                sizes[numbers[0]] = numbers[1]
                live += numbers[1]
            elif letter == "f":
                live -= sizes.pop(numbers[0])
            if step >= from_step:
                peak = max(peak, live)
        return peak


NUMBERS = {"a": 5, "f": 1, "u": 2, "w": 2, "s": 0}


def read_trace(path):
    trace = Trace()
    with gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
        if file.readline().rstrip("\n") != "headroom trace 1":
            raise ValueError(f"{path}: not a trace; its first line should be 'headroom trace 1'")
        for line_number, line in enumerate(file, 2):
            word, _, rest = line.rstrip("\n").partition(" ")
            if not word or word[0] == "#" or word in ("origin", "p"):
                continue
            if word == "name":
                trace.name = rest
                continue
            try:
                numbers = [int(text) for text in rest.split()]
            except ValueError:
                numbers = None
            if numbers is None or len(numbers) != NUMBERS.get(word, -1):
                raise ValueError(f"{path}:{line_number}: '{line.strip()}' is not an operation of a trace")
            trace.operations.append((word, *numbers))
    return trace


class Replay:
    """Each allocation is a tensor of bytes, written on its stream, and read where the trace says so."""

    def __init__(self, torch, trace, work):
        self.torch = torch
        self.work = work
        # The compute stream is one of its own, too: the default stream waits for the others.
        self.streams = [torch.cuda.Stream() for _ in range(trace.streams())]
        self.tensors = {}

    def play(self, operation):
        letter, *numbers = operation
        torch = self.torch
        if letter == "a":
            with torch.cuda.stream(self.streams[numbers[2]]):
                tensor = torch.empty(numbers[1], dtype=torch.uint8, device="cuda")
                if self.work:
                    tensor.zero_()
            self.tensors[numbers[0]] = tensor
        elif letter == "f":
            del self.tensors[numbers[0]]
        elif letter == "u":
            tensor, stream = self.tensors[numbers[0]], self.streams[numbers[1]]
            if self.work:
                with torch.cuda.stream(stream):
                    tensor.add_(1)
            tensor.record_stream(stream)
        elif letter == "w":
            self.streams[numbers[0]].wait_stream(self.streams[numbers[1]])


def statistics(torch):
    found = torch.cuda.memory_stats()
    return {
        "rounded": found.get("allocated_bytes.all.peak", 0),
        "reserved": found.get("reserved_bytes.all.peak", 0),
        # Of segments with cudaMalloc; with expandable segments PyTorch counts maps as well.
        "segments": found.get("num_device_alloc", 0),
        "segments_freed": found.get("num_device_free", 0),
        "retries": found.get("num_alloc_retries", 0),
        "synchronizations": found.get("num_sync_all_streams", 0),
    }


def replay(torch, trace, work):
    """The steady state is the second half of the steps, as in replay_traces."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    start = statistics(torch)
    first_steady = trace.steps() // 2
    state = Replay(torch, trace, work)
    step, warm_up = 0, None
    begin = time.perf_counter()
    for operation in trace.operations:
        if operation[0] == "s":
            if step == first_steady:
                warm_up = statistics(torch)
                torch.cuda.reset_peak_memory_stats()
            step += 1
        state.play(operation)
    host_seconds = time.perf_counter() - begin
    steady = statistics(torch)
    torch.cuda.synchronize()
    state.tensors.clear()
    warm_up = warm_up or steady
    whole_live, steady_live = trace.peak_live(), trace.peak_live(first_steady + 1)
    whole_reserved = max(warm_up["reserved"], steady["reserved"])
    counters = ("segments", "segments_freed", "retries", "synchronizations")
    return {
        "trace": trace.name,
        "steps": trace.steps(),
        "steady_steps": trace.steps() - first_steady,
        "whole": {"live": whole_live, "reserved": whole_reserved, "ratio": whole_reserved / whole_live},
        "steady": {
            "live": steady_live,
            "reserved": steady["reserved"],
            "ratio": steady["reserved"] / steady_live,
        },
        "warm_up_calls": {name: warm_up[name] - start[name] for name in counters},
        "steady_calls": {name: steady[name] - warm_up[name] for name in counters},
        "host_seconds": host_seconds,
    }


def print_row(row):
    whole, steady = row["whole"], row["steady"]
    print(
        f"{row['trace']:<14}{whole['live'] / 1e6:>9.1f}{whole['reserved'] / 1e6:>10.1f}{whole['ratio']:>8.4f} |"
        f"{steady['live'] / 1e6:>9.1f}{steady['reserved'] / 1e6:>10.1f}{steady['ratio']:>8.4f} |"
        f"{row['warm_up_calls']['segments']:>8}{row['steady_calls']['segments']:>8}"
        f"{row['steady_calls']['synchronizations']:>7}"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--no-work", action="store_true", help="queue no kernels: streams are never behind the host")
    flags = parser.parse_args()
    try:
        traces = [read_trace(path) for path in flags.traces]
    except (OSError, ValueError) as error:
        sys.exit(f"allocator_torch.py: {error}")
    try:
        import torch
    except ImportError:
        sys.exit("allocator_torch.py: PyTorch is missing; run python3 -m pip install torch")
    if not torch.cuda.is_available():
        sys.exit("allocator_torch.py: no GPU that PyTorch can use; its allocator can't be measured without one")
    print(f"{'trace':<14}{'live':>9}{'reserved':>10}{'ratio':>8} |{'steady':>9}{'reserved':>10}{'ratio':>8} |"
          f"{'cudaMalloc':>11}{'steady':>5}{'syncs':>7}")
    rows = []
    for trace in traces:
        rows.append(replay(torch, trace, not flags.no_work))
        print_row(rows[-1])
    if flags.json:
        result = {
            "allocator": f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}",
            "settings": {name: value for name, value in os.environ.items() if name.startswith("PYTORCH_")},
            "rows": rows,
        }
        with open(flags.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2)


if __name__ == "__main__":
    main()
