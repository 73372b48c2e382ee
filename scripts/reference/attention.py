#!/usr/bin/env python3
"""Writes tests/reference/attention.safetensors: attention with masks, by PyTorch's own scaled_dot_product_attention in
f64, for tests/core/attention_masks_test.cpp.

    pip install torch safetensors numpy        # once; written with torch 2.15
    scripts/reference/attention.py

Of each case: q, k, v [B, H, T or S, D], the mask or lengths, the output o, its gradient dy, and the gradients of q, k
and v. A query that sees no key is in the boolean case: PyTorch's safe softmax gives 0.
"""
import math
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

GENERATOR = torch.Generator().manual_seed(20240611)
TENSORS = {}


def normal(*shape):
    return torch.randn(*shape, generator=GENERATOR).double()


def case(name, batch, heads, queries, keys, width, mask, key, stored):
    """`key`: the name under which `stored` goes into the file, from which `mask` was made."""
    q, k, v = (normal(batch, heads, n, width).requires_grad_() for n in (queries, keys, keys))
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    dy = normal(*o.shape)
    o.backward(dy)
    parts = {"q": q, "k": k, "v": v, key: stored, "o": o, "dy": dy, "dq": q.grad, "dk": k.grad, "dv": v.grad}
    for part, x in parts.items():
        x = x.detach()
        TENSORS[f"{name}/{part}"] = (x.to(torch.uint8) if x.dtype == torch.bool else x).clone().contiguous()


def main():
    boolean = torch.rand(2, 1, 5, 9, generator=GENERATOR) < 0.6
    boolean[1, 0, 2] = False
    case("boolean", 2, 3, 5, 9, 4, boolean, "scores", boolean)
    bias = normal(3, 5, 9)
    bias[torch.rand(3, 5, 9, generator=GENERATOR) < 0.2] = -math.inf
    bias[1, 2, 3] = -1e9
    case("bias", 2, 3, 5, 9, 4, bias, "scores", bias)
    keys = torch.rand(2, 70, generator=GENERATOR) < 0.7
    case("keys", 2, 2, 6, 70, 4, keys[:, None, None, :], "keys", keys)
    lengths = torch.tensor([7, 0, 3])
    seen = torch.arange(7) < lengths[:, None]
    case("lengths", 3, 2, 7, 7, 4, seen[:, None, None, :], "lengths", lengths)
    case("causal", 3, 2, 7, 7, 4, seen[:, None, None, :] & torch.ones(7, 7).tril().bool(), "lengths", lengths)
    target = pathlib.Path(__file__).resolve().parents[2] / "tests/reference/attention.safetensors"
    save_file(TENSORS, target)
    print(f"{target}: {len(TENSORS)} tensors, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
