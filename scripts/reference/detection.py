#!/usr/bin/env python3
"""Writes tests/reference/detection.safetensors: the ops of detectors by torchvision, for
tests/core/detection_reference_test.cpp.

    pip install torch torchvision safetensors numpy        # once; written with torch 2.15, torchvision 0.29
    scripts/reference/detection.py

Of each case of roi_align, in f64: features x, boxes, the output y, its gradient dy, and dx. Of each case of nms, in
f32: boxes, scores and groups of a few images, and the positions that are kept, -1 behind them. The test makes the same
calls by the names of the cases. Inputs can be represented in f32.
"""
import pathlib

import torch
import torchvision.ops as ops
from safetensors.torch import save_file

GENERATOR = torch.Generator().manual_seed(20240703)
TENSORS = {}


def uniform(low, high, *shape):
    return low + (high - low) * torch.rand(*shape, generator=GENERATOR)


def boxes_in(count, width, height, least, most):
    corner = uniform(0, 1, count, 2) * torch.tensor([width, height])
    size = uniform(least, most, count, 2)
    return torch.cat([corner - size / 2, corner + size / 2], 1)


def roi_case(name, shape, boxes, size, **options):
    x = torch.randn(*shape, generator=GENERATOR).double().requires_grad_()
    images = torch.randint(0, shape[0], (len(boxes), 1), generator=GENERATOR)
    listed = torch.cat([images, boxes], 1).double()
    y = ops.roi_align(x, listed, size, **options)
    dy = torch.randn(*y.shape, generator=GENERATOR).double()
    y.backward(dy)
    for part, tensor in {"x": x, "boxes": listed, "y": y, "dy": dy, "dx": x.grad}.items():
        TENSORS[f"{name}/{part}"] = tensor.detach().clone().contiguous()


def regions():
    inside = boxes_in(9, 44, 36, 3, 20)
    far = torch.tensor([[-30.0, -20, 90, 70], [60, 60, 70, 70], [-9, 5, -5, 9], [-2, -2, 2, 2], [40, 30, 48, 40.5],
                        [10, 10, 10, 10], [12, 3, 20, 3], [8, 8, 8.25, 8.5]])
    every = torch.cat([inside, far])
    roi_case("box_head", (2, 8, 9, 11), inside, (7, 7), spatial_scale=0.25, sampling_ratio=2)
    roi_case("anywhere", (3, 5, 9, 11), every, (3, 2), spatial_scale=0.25, sampling_ratio=2)
    roi_case("anywhere_adaptive", (2, 5, 9, 11), every, (3, 2), spatial_scale=0.25)
    roi_case("anywhere_aligned", (2, 5, 9, 11), every, (2, 4), spatial_scale=0.25, sampling_ratio=3, aligned=True)
    roi_case("aligned_adaptive", (2, 8, 9, 11), every, (2, 3), spatial_scale=0.25, aligned=True)
    turned = inside[:, [2, 3, 0, 1]]
    roi_case("turned", (1, 2, 9, 11), turned, (2, 2), spatial_scale=0.25, sampling_ratio=2)
    roi_case("turned_aligned", (1, 2, 9, 11), turned, (2, 2), spatial_scale=0.25, sampling_ratio=2, aligned=True)
    roi_case("many_samples", (1, 3, 9, 11), torch.cat([inside[:3], far]), (1, 2), sampling_ratio=9)
    roi_case("one_pixel", (2, 3, 1, 1), inside, (2, 2), spatial_scale=0.05)


def nms_case(name, images, count, threshold, groups, make=None, scores=None):
    kept = torch.full((images, count), -1, dtype=torch.int64)
    lists = {"boxes": [], "scores": [], "groups": []}
    for n in range(images):
        boxes = make() if make else boxes_in(count, 60, 40, 4, 30)
        score = scores() if scores else uniform(0, 1, count)
        group = torch.randint(0, groups, (count,), generator=GENERATOR)
        stays = ops.batched_nms(boxes, score, group, threshold)
        kept[n, : len(stays)] = stays
        for part, tensor in {"boxes": boxes, "scores": score, "groups": group}.items():
            lists[part].append(tensor)
    TENSORS[f"{name}/kept"] = kept
    for part, tensors in lists.items():
        TENSORS[f"{name}/{part}"] = torch.stack(tensors)


def suppressions():
    nms_case("one_group", 2, 300, 0.5, 1)
    nms_case("groups", 3, 600, 0.3, 5)
    nms_case("few_stay", 1, 270, 0.05, 2)
    nms_case("most_stay", 2, 40, 0.95, 1)
    nms_case("equal_scores", 2, 60, 0.4, 2, scores=lambda: torch.randint(0, 4, (60,), generator=GENERATOR) / 4)
    # Overlaps that are the threshold itself, before or after it is rounded to f32.
    whole = lambda: torch.randint(0, 6, (100, 4), generator=GENERATOR).float().sort(1)[0]
    for threshold in [0.5, 0.3, 0.7, 0.25]:
        nms_case(f"whole_numbers_{round(100 * threshold)}", 2, 100, threshold, 1, make=whole)


def main():
    for group in [regions, suppressions]:
        group()
    target = pathlib.Path(__file__).resolve().parents[2] / "tests/reference/detection.safetensors"
    save_file(TENSORS, target)
    print(f"{target}: {len(TENSORS)} tensors, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
