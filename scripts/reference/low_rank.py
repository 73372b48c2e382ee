#!/usr/bin/env python3
"""Writes tests/reference/low_rank.safetensors: layers with low-rank adapters (LoRA), computed by PEFT on PyTorch in f64.

    pip install torch transformers peft safetensors numpy   # once; written with torch 2.15, transformers 5.24, peft 0.21
    scripts/reference/low_rank.py

    linear/...     a linear layer of 5 to 7, rank 3, alpha 4.5: weight, bias, lora_a, lora_b, x [2, 3, 5], dy, y, and the
                   gradients of (y * dy).sum(): grad_x, grad_lora_a, grad_lora_b
    gpt/...        Hugging Face's GPT-2 with the weights of gpt_initial.safetensors and the batches of gpt_batches.safetensors,
                   adapters of rank 4 and alpha 6 in its four linear layers of each block, trained alone by three steps of
                   AdamW (rate 1e-3, betas 0.9 and 0.99, epsilon 1e-8, weight decay 0.1; clipped to a norm of 1):
                   initial/NAME, gradients/NAME (of the first batch's mean loss, before clipping), trained/NAME, where NAME
                   is "h.0.attn.c_attn.lora_a" for instance; losses [3], norms [3], logits (of the first batch, at first)
"""
import pathlib

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/reference"
LAYERS = ["c_attn", "c_proj", "c_fc"]


def normal(generator, *shape):
    return 0.3 * torch.randn(*shape, generator=generator).double()


def draw(matrices, generator):
    """Not PEFT's zeros: without values in B no gradient reaches A."""
    for matrix in matrices.values():
        matrix.data = normal(generator, *matrix.shape)


def matrices_of(model):
    """By the name of the layer and its matrix; they alone are trained."""
    found = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        layer, matrix = name.removeprefix("base_model.model.").split(".lora_")
        found[f"{layer.removeprefix('transformer.')}.lora_{matrix[0].lower()}"] = parameter
    return found


def linear(generator):
    layer = torch.nn.Linear(5, 7).double()
    layer.weight.data, layer.bias.data = normal(generator, 7, 5), normal(generator, 7)
    values = {"weight": layer.weight.detach().clone(), "bias": layer.bias.detach().clone()}
    model = get_peft_model(torch.nn.Sequential(layer), LoraConfig(r=3, lora_alpha=4.5, target_modules=["0"]))
    matrices = matrices_of(model)
    draw(matrices, generator)
    x, dy = normal(generator, 2, 3, 5).requires_grad_(), normal(generator, 2, 3, 7)
    y = model(x)
    (y * dy).sum().backward()
    values |= {"x": x.detach(), "dy": dy, "y": y.detach(), "grad_x": x.grad}
    for name, matrix in matrices.items():
        values |= {name.split(".")[-1]: matrix.detach(), f"grad_{name.split('.')[-1]}": matrix.grad}
    return {f"linear/{name}": x.contiguous() for name, x in values.items()}


def gpt(generator):
    start, batches = load_file(FOLDER / "gpt_initial.safetensors"), load_file(FOLDER / "gpt_batches.safetensors")
    config = GPT2Config(vocab_size=11, n_positions=8, n_embd=16, n_layer=2, n_head=2, activation_function="gelu_new",
                        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, attn_implementation="eager")
    base = GPT2LMHeadModel(config).double()
    missing, unexpected = base.transformer.load_state_dict(start, strict=False)
    assert not unexpected and all(name.endswith("attn.bias") for name in missing), (missing, unexpected)
    model = get_peft_model(base, LoraConfig(r=4, lora_alpha=6, target_modules=LAYERS, fan_in_fan_out=True))
    matrices = matrices_of(model)
    assert len(matrices) == 2 * 4 * 2, sorted(matrices)
    draw(matrices, generator)
    values = {f"initial/{name}": x.detach().clone() for name, x in matrices.items()}
    optimizer = torch.optim.AdamW(matrices.values(), lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)
    losses, norms = [], []
    for ids, targets in zip(batches["ids"], batches["targets"]):
        optimizer.zero_grad()
        logits = model(input_ids=ids).logits
        loss = F.cross_entropy(logits.view(-1, 11), targets.reshape(-1))
        loss.backward()
        if not losses:
            values["logits"] = logits.detach().clone()
            values |= {f"gradients/{name}": x.grad.clone() for name, x in matrices.items()}
        norms.append(torch.nn.utils.clip_grad_norm_(matrices.values(), 1.0))
        optimizer.step()
        losses.append(loss.detach())
    values |= {f"trained/{name}": x.detach() for name, x in matrices.items()}
    values |= {"losses": torch.stack(losses), "norms": torch.stack(norms)}
    print(f"losses {[x.item() for x in losses]}, norms {[x.item() for x in norms]}")
    return {f"gpt/{name}": x.contiguous() for name, x in values.items()}


def main():
    generator = torch.Generator().manual_seed(1337)
    save_file(linear(generator) | gpt(generator), FOLDER / "low_rank.safetensors")


if __name__ == "__main__":
    main()
