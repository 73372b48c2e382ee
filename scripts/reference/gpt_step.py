#!/usr/bin/env python3
"""Writes tests/reference/gpt_*.safetensors: three training steps of a small GPT-2, computed by PyTorch in f64.

    pip install torch safetensors numpy        # once; written with torch 2.15
    scripts/reference/gpt_step.py

    gpt_initial.safetensors     parameters, named and laid out as Hugging Face's GPT-2
    gpt_gradients.safetensors   gradients of the mean loss of the first batch, before clipping
    gpt_trained.safetensors     parameters after three steps, one per batch
    gpt_batches.safetensors     ids and targets [3, 2, 8], mean losses [3], norms of the gradients [3]

2 layers, 2 heads, 16 wide, vocabulary 11, block 8, batch 2, GELU in its tanh form, the head tied to the token table.
AdamW: rate 1e-3, betas 0.9 and 0.99, epsilon 1e-8, weight decay 0.1 on matrices only; clipped to a norm of 1.
"""
import math
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

LAYERS, HEADS, WIDTH, VOCABULARY, BLOCK, BATCH, STEPS = 2, 2, 16, 11, 8, 2, 3


def initial(generator):
    def normal(*shape):
        return 0.2 * torch.randn(*shape, generator=generator).double()

    def layer(name, n_in, n_out):
        return {f"{name}.weight": normal(n_in, n_out), f"{name}.bias": normal(n_out)}

    def norm(name):
        return {f"{name}.weight": (1 + normal(WIDTH)).float().double(), f"{name}.bias": normal(WIDTH)}

    parameters = {"wte.weight": normal(VOCABULARY, WIDTH), "wpe.weight": normal(BLOCK, WIDTH)}
    for i in range(LAYERS):
        parameters |= norm(f"h.{i}.ln_1")
        parameters |= layer(f"h.{i}.attn.c_attn", WIDTH, 3 * WIDTH)
        parameters |= layer(f"h.{i}.attn.c_proj", WIDTH, WIDTH)
        parameters |= norm(f"h.{i}.ln_2")
        parameters |= layer(f"h.{i}.mlp.c_fc", WIDTH, 4 * WIDTH)
        parameters |= layer(f"h.{i}.mlp.c_proj", 4 * WIDTH, WIDTH)
    return parameters | norm("ln_f")


def mean_loss(p, ids, targets):
    def norm(name, x):
        return F.layer_norm(x, (WIDTH,), p[f"{name}.weight"], p[f"{name}.bias"], 1e-5)

    def layer(name, x):
        return x @ p[f"{name}.weight"] + p[f"{name}.bias"]

    def attention(x):
        q, k, v = (y.view(BATCH, BLOCK, HEADS, -1).transpose(1, 2) for y in x.split(WIDTH, 2))
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        scores = scores.masked_fill(torch.ones(BLOCK, BLOCK).tril() == 0, -math.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(BATCH, BLOCK, WIDTH)

    x = p["wte.weight"][ids] + p["wpe.weight"][:BLOCK]
    for i in range(LAYERS):
        h = f"h.{i}"
        x = x + layer(f"{h}.attn.c_proj", attention(layer(f"{h}.attn.c_attn", norm(f"{h}.ln_1", x))))
        x = x + layer(f"{h}.mlp.c_proj", F.gelu(layer(f"{h}.mlp.c_fc", norm(f"{h}.ln_2", x)), approximate="tanh"))
    logits = norm("ln_f", x) @ p["wte.weight"].T
    return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def main():
    generator = torch.Generator().manual_seed(1337)
    parameters = {name: x.requires_grad_() for name, x in initial(generator).items()}
    start = {name: x.detach().clone() for name, x in parameters.items()}
    ids = torch.randint(VOCABULARY, (STEPS, BATCH, BLOCK), generator=generator)
    targets = torch.randint(VOCABULARY, (STEPS, BATCH, BLOCK), generator=generator)
    optimizer = torch.optim.AdamW(
        [{"params": [x for x in parameters.values() if x.dim() >= 2], "weight_decay": 0.1},
         {"params": [x for x in parameters.values() if x.dim() < 2], "weight_decay": 0.0}],
        lr=1e-3, betas=(0.9, 0.99), eps=1e-8)
    losses, norms, gradients = [], [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = mean_loss(parameters, ids[step], targets[step])
        loss.backward()
        gradients = gradients or {name: x.grad.clone() for name, x in parameters.items()}
        norms.append(torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0))
        optimizer.step()
        losses.append(loss.detach())
    folder = pathlib.Path(__file__).resolve().parents[2] / "tests/reference"
    trained = {name: x.detach().clone() for name, x in parameters.items()}
    batches = {"ids": ids, "targets": targets, "losses": torch.stack(losses), "norms": torch.stack(norms)}
    for name, tensors in [("initial", start), ("gradients", gradients), ("trained", trained), ("batches", batches)]:
        save_file(tensors, folder / f"gpt_{name}.safetensors")
    print(f"{folder}: losses {[x.item() for x in losses]}, norms {[x.item() for x in norms]}")


if __name__ == "__main__":
    main()
