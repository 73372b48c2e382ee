#!/usr/bin/env python3
"""Writes tests/reference/image_ops.safetensors: pools, interpolation and padding of images by PyTorch in f64, for
tests/core/image_ops_reference_test.cpp.

    pip install torch safetensors numpy        # once; written with torch 2.15
    scripts/reference/image_ops.py

Of each case: the input x, the output y, its gradient dy, and dx. The test makes the same calls by the names of the
cases. Inputs can be represented in f32.
"""
import math
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

GENERATOR = torch.Generator().manual_seed(20240612)
TENSORS = {}


def normal(*shape):
    return torch.randn(*shape, generator=GENERATOR).double()


def case(name, function, x):
    x = x.clone().requires_grad_()
    y = function(x)
    dy = normal(*y.shape)
    y.backward(dy)
    for part, tensor in {"x": x, "y": y, "dy": dy, "dx": x.grad}.items():
        TENSORS[f"{name}/{part}"] = tensor.detach().clone().contiguous()


def pools():
    case("max_pool", lambda x: F.max_pool2d(x, 3, 2, 1), normal(2, 5, 9, 8))
    case("max_pool_side_by_side", lambda x: F.max_pool2d(x, 2), normal(2, 3, 6, 7))
    case("max_pool_ceil", lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), normal(1, 2, 6, 9))
    case("max_pool_ceil_drops_a_window", lambda x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True), normal(1, 2, 6, 5))
    case("max_pool_dilated", lambda x: F.max_pool2d(x, (2, 3), (1, 2), (1, 1), (3, 2)), normal(1, 3, 8, 9))
    case("max_pool_ties", lambda x: F.max_pool2d(x, 3, 1, 1), normal(1, 4, 7, 6).round())
    special = normal(1, 3, 7, 8)
    special[0, 0, 2:4, 3:6] = math.nan
    special[0, 1, :, 2:] = -math.inf
    case("max_pool_special", lambda x: F.max_pool2d(x, 3, 2, 1), special)
    case("avg_pool", lambda x: F.avg_pool2d(x, 3, 2, 1), normal(2, 5, 9, 8))
    case("avg_pool_inside", lambda x: F.avg_pool2d(x, (2, 3), (1, 2), (1, 1), count_include_pad=False),
         normal(1, 3, 6, 7))
    case("avg_pool_ceil", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), normal(1, 2, 6, 8))
    case("avg_pool_ceil_inside", lambda x: F.avg_pool2d(x, 3, 3, 1, ceil_mode=True, count_include_pad=False),
         normal(1, 2, 6, 8))
    case("avg_pool_divisor", lambda x: F.avg_pool2d(x, 2, divisor_override=3), normal(1, 2, 5, 6))
    case("adaptive_avg_pool", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), normal(2, 3, 7, 10))
    case("adaptive_avg_pool_to_more", lambda x: F.adaptive_avg_pool2d(x, (7, 7)), normal(1, 2, 5, 3))
    case("global_avg_pool", lambda x: F.adaptive_avg_pool2d(x, 1), normal(2, 3, 5, 6))


def interpolations():
    case("nearest", lambda x: F.interpolate(x, scale_factor=2), normal(2, 3, 4, 5))
    case("nearest_size", lambda x: F.interpolate(x, (7, 3)), normal(1, 2, 5, 8))
    case("nearest_factor", lambda x: F.interpolate(x, scale_factor=1.7), normal(1, 2, 5, 8))
    for name, align in {"bilinear": False, "aligned": True}.items():
        def resized(x, align=align, **options):
            return F.interpolate(x, mode="bilinear", align_corners=align, **options)

        case(name, lambda x, f=resized: f(x, scale_factor=2), normal(2, 3, 4, 5))
        case(name + "_size", lambda x, f=resized: f(x, size=(7, 3)), normal(1, 2, 5, 8))
        case(name + "_one", lambda x, f=resized: f(x, size=(1, 4)), normal(1, 2, 5, 1))
        case(name + "_factor", lambda x, f=resized: f(x, scale_factor=1.7), normal(1, 2, 5, 8))
        case(name + "_recomputed", lambda x, f=resized: f(x, scale_factor=0.7, recompute_scale_factor=True),
             normal(1, 2, 5, 8))


def paddings():
    case("pad", lambda x: F.pad(x, (1, 2, 3, 4), value=0.5), normal(2, 3, 4, 5))
    case("pad_channels", lambda x: F.pad(x, (0, 0, 1, 0, 2, 1)), normal(2, 3, 4, 5))
    case("pad_crops", lambda x: F.pad(x, (-1, 2, 3, -2), value=-1.0), normal(1, 2, 5, 6))
    for mode in ["reflect", "replicate"]:
        case(mode, lambda x, m=mode: F.pad(x, (3, 2, 1, 3), m), normal(2, 3, 4, 5))
        case(mode + "_columns", lambda x, m=mode: F.pad(x, (1, 2, 0, 0), m), normal(1, 2, 3, 4))
        case(mode + "_crops", lambda x, m=mode: F.pad(x, (-1, 2, 3, -2), m), normal(1, 2, 5, 6))
    case("replicate_many", lambda x: F.pad(x, (9, 4, 0, 7), "replicate"), normal(1, 2, 3, 2))


def main():
    for group in [pools, interpolations, paddings]:
        group()
    target = pathlib.Path(__file__).resolve().parents[2] / "tests/reference/image_ops.safetensors"
    save_file(TENSORS, target)
    print(f"{target}: {len(TENSORS)} tensors, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
