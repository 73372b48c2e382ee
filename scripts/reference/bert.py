#!/usr/bin/env python3
"""Writes tests/reference/bert_*.safetensors: three training steps of a small transformers.BertForMaskedLM in f64 on
padded batches, for tests/nn/bert_reference_test.cpp.

    pip install torch transformers safetensors numpy        # once; written with torch 2.15 and transformers 5
    scripts/reference/bert.py

bert_initial: parameters by Hugging Face's names. bert_steps: gradient/NAME of the first mean loss, trained/NAME; ids,
types and targets [3, 3, 7] (targets -100 where nothing is asked), lengths [3, 3], losses [3]. SGD: rate 0.1, momentum
0.9. No dropout.
"""
import pathlib

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM

STEPS, BATCH, TIME, VOCABULARY = 3, 3, 7, 13


def main():
    generator = torch.Generator().manual_seed(20240613)
    config = BertConfig(vocab_size=VOCABULARY, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=12, max_position_embeddings=9, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0)
    model = BertForMaskedLM(config).double().train()
    for name, x in model.named_parameters():
        offset = 1.0 if name.endswith("LayerNorm.weight") else 0.0
        x.data = 0.3 * torch.randn(*x.shape, generator=generator).double() + offset
    initial = {name: x.detach().clone() for name, x in model.named_parameters()}
    shape = (STEPS, BATCH, TIME)
    ids = torch.randint(1, VOCABULARY, shape, generator=generator)
    types = torch.randint(2, shape, generator=generator)
    lengths = torch.randint(1, TIME + 1, (STEPS, BATCH), generator=generator)
    lengths[0, 1] = 3
    seen = torch.arange(TIME) < lengths[:, :, None]
    ids[~seen] = 0
    targets = torch.where(torch.rand(shape, generator=generator) < 0.4, ids, -100)
    targets[:, :, 0] = ids[:, :, 0]
    targets[~seen] = -100
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses, gradients = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(input_ids=ids[step], attention_mask=seen[step], token_type_ids=types[step],
                     labels=targets[step]).loss
        loss.backward()
        gradients = gradients or {name: x.grad.clone() for name, x in model.named_parameters()}
        optimizer.step()
        losses.append(loss.detach())
    tensors = {"ids": ids, "types": types, "targets": targets, "lengths": lengths, "losses": torch.stack(losses)}
    for name, x in model.named_parameters():
        tensors[f"gradient/{name}"] = gradients[name]
        tensors[f"trained/{name}"] = x.detach().clone()
    folder = pathlib.Path(__file__).resolve().parents[2] / "tests/reference"
    for name, of in [("initial", initial), ("steps", tensors)]:
        save_file({key: x.contiguous() for key, x in of.items()}, folder / f"bert_{name}.safetensors")
    print(f"{folder}: losses {[x.item() for x in losses]}")


if __name__ == "__main__":
    main()
