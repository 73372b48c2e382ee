#!/usr/bin/env python3
"""Writes tests/reference/bert_*.safetensors: three training steps of a small transformers.BertForMaskedLM and of a
BertForSequenceClassification in f64 on padded batches, for tests/nn/bert_reference_test.cpp.

    pip install torch transformers safetensors numpy        # once; written with torch 2.15 and transformers 5
    scripts/reference/bert.py

bert_initial: parameters by Hugging Face's names, of the model of words. bert_steps: ids, types and targets [3, 3, 7]
(targets -100 where nothing is asked), lengths [3, 3]; words/losses [3], words/gradient/NAME of the first mean loss,
words/trained/NAME; the same of classes, which begins with the same encoder, with classes/initial/NAME of its head and
classes/targets [3, 3]. Initial values can be represented in f32. SGD: rate 0.1, momentum 0.9. No dropout.
"""
import pathlib

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

STEPS, BATCH, TIME, VOCABULARY, CLASSES = 3, 3, 7, 13, 3


def initialize(parameters, generator):
    for name, x in parameters:
        offset = 1.0 if name.endswith("LayerNorm.weight") else 0.0
        x.data = (0.3 * torch.randn(*x.shape, generator=generator) + offset).double()


def train(model, loss_of):
    """Losses, first gradients and what three steps leave."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses, results = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        if step == 0:
            results = {f"gradient/{name}": x.grad.clone() for name, x in model.named_parameters()}
        optimizer.step()
        losses.append(loss.detach())
    results.update({f"trained/{name}": x.detach().clone() for name, x in model.named_parameters()})
    return results | {"losses": torch.stack(losses)}


def main():
    generator = torch.Generator().manual_seed(20240613)
    config = BertConfig(vocab_size=VOCABULARY, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=12, max_position_embeddings=9, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0, num_labels=CLASSES)
    model = BertForMaskedLM(config).double().train()
    initialize(model.named_parameters(), generator)
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
    classes = torch.randint(CLASSES, (STEPS, BATCH), generator=generator)

    def loss_of(any_model, labels):
        return lambda step: any_model(input_ids=ids[step], attention_mask=seen[step], token_type_ids=types[step],
                                      labels=labels[step]).loss

    judge = BertForSequenceClassification(config).double().train()
    judge.load_state_dict(initial, strict=False)
    head = [(name, x) for name, x in judge.named_parameters() if name not in initial]
    initialize(head, generator)
    tensors = {"ids": ids, "types": types, "targets": targets, "lengths": lengths, "classes/targets": classes}
    tensors |= {f"classes/initial/{name}": x.detach().clone() for name, x in head}
    for group, results in [("words", train(model, loss_of(model, targets))),
                           ("classes", train(judge, loss_of(judge, classes)))]:
        tensors |= {f"{group}/{key}": x for key, x in results.items()}
        print(f"{group}: losses {[x.item() for x in results['losses']]}")
    folder = pathlib.Path(__file__).resolve().parents[2] / "tests/reference"
    for name, of in [("initial", initial), ("steps", tensors)]:
        save_file({key: x.contiguous() for key, x in of.items()}, folder / f"bert_{name}.safetensors")


if __name__ == "__main__":
    main()
