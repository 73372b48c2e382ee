"""A training step of two recurrent layers in PyTorch, eager, as bench/nn/recurrent_bench.cpp has it: seconds, and the peak
of what its allocator had live, by the profiler. Prints one JSON object. PyTorch is a peer to compare with, not a
dependency: pip install torch==2.15.0.

    python3 bench/peers/recurrent_torch.py --kind lstm --steps 5 --threads 2
"""

import argparse
import json
import statistics
import time

import torch

from profiled_peak import profiled_peak

TIME, BATCH, WIDTH, LAYERS = 128, 16, 512, 2


def make(kind):
    net = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](WIDTH, WIDTH, LAYERS)
    return net, torch.randn(TIME, BATCH, WIDTH)


def step(net, x):
    net.zero_grad(set_to_none=True)
    net(x)[0].sum().backward()


def two_steps(kind):
    """The first one leaves gradients that the second one begins without, as a loop has it."""
    net, x = make(kind)
    step(net, x)
    step(net, x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=["lstm", "gru"], required=True)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    peak = profiled_peak(lambda: two_steps(flags.kind))
    net, x = make(flags.kind)
    step(net, x)
    seconds = []
    for _ in range(flags.steps):
        begin = time.perf_counter()
        step(net, x)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"torch": torch.__version__, "threads": flags.threads, "seconds": statistics.median(seconds),
                      "peak_bytes": peak}))


if __name__ == "__main__":
    main()
