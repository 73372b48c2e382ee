"""Pools, interpolation and padding of channels-last images by PyTorch, at the sizes of bench/kernels/images_bench.cpp:
milliseconds forward and of the gradient, medians. PyTorch is a peer to compare with, not a dependency: pip install
torch==2.15.0.

    python3 bench/peers/images_torch.py [--threads 2]
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F

CALLS = {
    "max_pool 8x64x112 3/2/1": ((8, 64, 112, 112), lambda x: F.max_pool2d(x, 3, 2, 1)),
    "max_pool 4x64x224 2/2/0": ((4, 64, 224, 224), lambda x: F.max_pool2d(x, 2)),
    "avg_pool 8x64x112": ((8, 64, 112, 112), lambda x: F.avg_pool2d(x, 2)),
    "global_avg_pool 8x2048x7": ((8, 2048, 7, 7), lambda x: F.adaptive_avg_pool2d(x, 1)),
    "bilinear 1x64x192": ((1, 64, 192, 192),
                          lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)),
    "bilinear 1x512x24": ((1, 512, 24, 24),
                          lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)),
    "nearest 1x64x192": ((1, 64, 192, 192), lambda x: F.interpolate(x, scale_factor=2)),
    "reflect 1x64x256": ((1, 64, 256, 256), lambda x: F.pad(x, (3, 3, 3, 3), "reflect")),
}


def median_ms(work, runs=30):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times[3:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    torch.set_num_threads(parser.parse_args().threads)
    for name, (shape, call) in CALLS.items():
        x = torch.randn(shape).contiguous(memory_format=torch.channels_last).requires_grad_()
        y = call(x)
        dy = torch.randn_like(y)
        forward = median_ms(lambda: call(x))
        backward = median_ms(lambda: torch.autograd.grad(y, x, dy, retain_graph=True))
        print(f"{name:28} {forward:8.3f} {backward:8.3f}", flush=True)


if __name__ == "__main__":
    main()
