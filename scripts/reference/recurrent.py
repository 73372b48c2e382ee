#!/usr/bin/env python3
"""Writes tests/reference/recurrent.safetensors: LSTM and GRU of PyTorch in f64, three steps of SGD with momentum.

    pip install torch safetensors numpy        # once; written with torch 2.15
    scripts/reference/recurrent.py

"stack": two layers, both directions, sequences of different lengths, states to begin with. "plain": one layer, batch
first. For each, as CASE/..., x, h0, c0, lengths; initial/NAME and trained/NAME by the parameters' names; weights of the
loss, sum(output * of_output) + sum(h_n * of_h) + sum(c_n * of_c); of the first step output, h_n, c_n, and the gradients
gradient/NAME, dx, dh0, dc0. tests/nn/recurrent_reference_test.cpp makes the same steps.
"""
import pathlib

import torch
from safetensors.torch import save_file

GENERATOR = torch.Generator().manual_seed(20261122)
TIME, BATCH, IN, WIDTH, STEPS = 5, 4, 3, 4, 3
LENGTHS = torch.tensor([3, 5, 1, 4])
TENSORS = {}


def normal(*shape):
    return torch.randn(*shape, generator=GENERATOR).double()


def run(name, make, packed):
    net = make().double()
    for parameter in net.parameters():
        parameter.data = normal(*parameter.shape) / 2
    directions = 2 if net.bidirectional else 1
    lstm = isinstance(net, torch.nn.LSTM)
    shape = (BATCH, TIME) if net.batch_first else (TIME, BATCH)
    given = {"x": normal(*shape, IN)}
    state = (net.num_layers * directions, BATCH, WIDTH)
    if packed:
        given["h0"] = normal(*state)
        if lstm:
            given["c0"] = normal(*state)
    factors = {"of_output": normal(*shape, directions * WIDTH), "of_h": normal(*state)}
    if lstm:
        factors["of_c"] = normal(*state)
    stored = {**given, **factors, **{f"initial/{k}": p for k, p in net.named_parameters()}}
    if packed:
        stored["lengths"] = LENGTHS
    stored = {k: x.detach().clone() for k, x in stored.items()}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        leaves = {k: x.clone().requires_grad_() for k, x in given.items()}
        states = None if not packed else (leaves["h0"], leaves["c0"]) if lstm else leaves["h0"]
        x = leaves["x"]
        if packed:
            x = torch.nn.utils.rnn.pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        output, states = net(x, states)
        if packed:
            output, _ = torch.nn.utils.rnn.pad_packed_sequence(output, total_length=TIME)
        h, c = states if lstm else (states, None)
        loss = (output * factors["of_output"]).sum() + (h * factors["of_h"]).sum()
        if lstm:
            loss = loss + (c * factors["of_c"]).sum()
        loss.backward()
        if step == 0:
            stored.update(output=output, h_n=h, **({"c_n": c} if lstm else {}))
            stored.update({f"d{k}": leaf.grad for k, leaf in leaves.items()})
            stored.update({f"gradient/{k}": p.grad for k, p in net.named_parameters()})
            stored = {k: y.detach().clone().contiguous() for k, y in stored.items()}
        optimizer.step()
    stored.update({f"trained/{k}": p.detach().clone() for k, p in net.named_parameters()})
    TENSORS.update({f"{name}/{k}": y for k, y in stored.items()})


def main():
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        name = kind.__name__.lower()
        run(f"{name}_stack", lambda: kind(IN, WIDTH, num_layers=2, bidirectional=True), packed=True)
        run(f"{name}_plain", lambda: kind(IN, WIDTH, batch_first=True), packed=False)
    target = pathlib.Path(__file__).resolve().parents[2] / "tests/reference/recurrent.safetensors"
    save_file(TENSORS, target)
    print(f"{target}: {len(TENSORS)} tensors, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
