"""Batch normalisation with a ReLU (in place) in PyTorch on a CPU, channels-last f32, for the shapes of
bench/kernels/channel_norm_bench.cpp: microseconds of forward and of backward, medians.

    python3 bench/peers/batch_norm_torch.py [--threads 2]
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F

SHAPES = [(8, 64, 112), (8, 64, 56), (8, 256, 56), (8, 512, 28), (8, 1024, 14), (8, 2048, 7), (1, 64, 384), (1, 256, 96),
          (1, 1024, 24)]


def times(images, channels, size, repeats):
    x = torch.randn(images, channels, size, size).to(memory_format=torch.channels_last).requires_grad_()
    weight, bias = torch.rand(channels, requires_grad=True), torch.rand(channels, requires_grad=True)
    mean, variance = torch.zeros(channels), torch.ones(channels)
    dy = torch.randn_like(x)
    forward, backward = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        y = F.relu(F.batch_norm(x, mean, variance, weight, bias, True), inplace=True)
        middle = time.perf_counter()
        torch.autograd.grad(y, [x, weight, bias], dy)
        end = time.perf_counter()
        forward.append(middle - begin)
        backward.append(end - middle)
    return statistics.median(forward), statistics.median(backward)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=40)
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    for shape in SHAPES:
        forward, backward = times(*shape, flags.repeats)
        print("{}x{}x{}: forward {:.0f}, backward {:.0f}".format(*shape, 1e6 * forward, 1e6 * backward))


if __name__ == "__main__":
    main()
