#!/usr/bin/env python3
"""Writes tests/reference/transformer_encoder.safetensors: two layers of torch.nn.TransformerEncoder in f64, post-norm
with GELU and pre-norm with ReLU, on a padded batch, for tests/nn/transformer_encoder_test.cpp.

    pip install torch safetensors numpy        # once; written with torch 2.15
    scripts/reference/transformer_encoder.py

Of each of the two: PARAMETER by PyTorch's name and grad/PARAMETER, the input x [3, 7, 8], its lengths, the output y, and
the gradients dy and dx.
"""
import pathlib

import torch
from safetensors.torch import save_file

BATCH, TIME, WIDTH, HEADS, HIDDEN, LAYERS = 3, 7, 8, 2, 12, 2


def tensors_of(name, generator, norm_first, activation):
    def normal(*shape):
        return torch.randn(*shape, generator=generator).double()

    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, activation=activation, batch_first=True,
                                             norm_first=norm_first, dtype=torch.float64)
    norm = torch.nn.LayerNorm(WIDTH, dtype=torch.float64) if norm_first else None
    encoder = torch.nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=False)
    for parameter in encoder.parameters():
        parameter.data = (0.3 * normal(*parameter.shape) + (parameter.dim() == 1)).clone()
    lengths = torch.tensor([7, 1, 4])
    padding = torch.arange(TIME) >= lengths[:, None]
    x = normal(BATCH, TIME, WIDTH).requires_grad_()
    y = encoder(x, src_key_padding_mask=padding)
    dy = normal(*y.shape)
    y.backward(dy)
    tensors = {"x": x, "lengths": lengths, "y": y, "dy": dy, "dx": x.grad}
    for path, parameter in encoder.named_parameters():
        tensors[path] = parameter
        tensors[f"grad/{path}"] = parameter.grad
    return {f"{name}/{key}": tensor.detach().clone().contiguous() for key, tensor in tensors.items()}


def main():
    generator = torch.Generator().manual_seed(20240612)
    tensors = tensors_of("post", generator, False, "gelu") | tensors_of("pre", generator, True, "relu")
    target = pathlib.Path(__file__).resolve().parents[2] / "tests/reference/transformer_encoder.safetensors"
    save_file(tensors, target)
    print(f"{target}: {len(tensors)} tensors, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
