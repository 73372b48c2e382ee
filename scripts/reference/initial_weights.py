#!/usr/bin/env python3
"""Writes tests/reference/initial_weights.txt: how PyTorch, torchvision and transformers initialise each tensor of a
model, for tests/nn/initial_weights_test.cpp.

    pip install torch torchvision transformers        # once; written with torch 2.15, torchvision 0.29, transformers 5
    scripts/reference/initial_weights.py

"= MODEL", then "NAME normal DEVIATION", "NAME uniform BOUND" (within +-BOUND) or "NAME constant VALUE" for each tensor
of its state. The numbers are those that the libraries call `normal_` and `uniform_` with, not measured; that the tensor
has that distribution is checked here. Row 0 of BERT's table of words, which is padding and 0 there, is left out. Sizes
are as in the test; of a transformer's encoder there are the matrices alone.
"""
import math
import pathlib
import types

import image_models
import mask_rcnn
import torch
import torchvision
import torchvision.models.vgg as vgg
from torch import nn
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

PATH = pathlib.Path(__file__).resolve().parents[2] / "tests/reference/initial_weights.txt"


class Calls:
    """While it is entered, the last call of `normal_` and `uniform_` for each memory."""

    def __enter__(self):
        self.last, self.own = {}, {name: getattr(torch.Tensor, name) for name in ("normal_", "uniform_")}
        for name in self.own:
            setattr(torch.Tensor, name, self.noted(name))
        return self

    def __exit__(self, *_):
        for name, method in self.own.items():
            setattr(torch.Tensor, name, method)

    def noted(self, name):
        def call(tensor, *numbers, generator=None, **named):
            numbers += tuple(named[key] for key in ("mean", "std") if key in named)
            self.last[tensor.data_ptr()] = (name, *numbers)
            return self.own[name](tensor, *numbers, generator=generator)
        return call

    def rule_of(self, x):
        """Its mean and variance are checked to six standard deviations."""
        values = x.detach().double().flatten()
        if (values == values[0]).all():
            return f"constant {values[0].item():g}"
        name, first, second = self.last[x.data_ptr()]
        if name == "normal_":
            rule, middle, deviation, fourth = f"normal {second:.7g}", first, second, 3
        else:
            rule, middle, deviation, fourth = f"uniform {second:.7g}", (first + second) / 2, second / math.sqrt(3), 1.8
        assert middle == 0, (name, first, second)
        assert values.mean().abs() < 6 * deviation / math.sqrt(len(values))
        variance = (values**2).mean() / deviation**2
        assert (variance - 1).abs() < 6 * math.sqrt((fourth - 1) / len(values)), (rule, variance)
        return rule


def narrow_vgg(batch_norm):
    """torchvision's VGG-11 of a quarter of its width, with its own initialisation."""
    width, hidden = 16, 256
    sizes = {512 * 49: 8 * width * 49, 4096: hidden}

    class NarrowLinear(nn.Linear):
        def __init__(self, inputs, outputs):
            super().__init__(sizes.get(inputs, inputs), sizes.get(outputs, outputs))

    layers = [width, "M", 2 * width, "M", 4 * width, 4 * width, "M", 8 * width, 8 * width, "M", 8 * width, 8 * width, "M"]
    vgg.nn = types.SimpleNamespace(**vars(nn) | {"Linear": NarrowLinear})
    try:
        return vgg.VGG(vgg.make_layers(layers, batch_norm))
    finally:
        vgg.nn = nn


def small_mask_rcnn():
    mask_rcnn.BODY, mask_rcnn.PYRAMID, mask_rcnn.HIDDEN = 16, 32, 64
    kept, nn.Module.double = nn.Module.double, lambda self: self  # which would be another memory
    try:
        return mask_rcnn.make_model()
    finally:
        nn.Module.double = kept


BERT = BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=96,
                  max_position_embeddings=40, num_labels=3)
MODELS = {
    "resnet18": torchvision.models.resnet18,
    "resnet50": torchvision.models.resnet50,
    "vgg11": lambda: narrow_vgg(False),
    "vgg11_bn": lambda: narrow_vgg(True),
    "unet": lambda: image_models.UNet(3, 5, False, 16),
    "unet_bilinear": lambda: image_models.UNet(3, 5, True, 16),
    "mask_rcnn": small_mask_rcnn,
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=500, n_positions=40, n_layer=3)),
    "bert_words": lambda: BertForMaskedLM(BERT),
    "bert_classes": lambda: BertForSequenceClassification(BERT),
    "encoder": lambda: nn.Transformer(64, 4, num_encoder_layers=2, num_decoder_layers=1, dim_feedforward=96).encoder,
    "lstm": lambda: nn.LSTM(48, 64, 2, bidirectional=True),
    "gru": lambda: nn.GRU(48, 64, 2, bidirectional=True),
    "lstm_cell": lambda: nn.LSTMCell(48, 64),
    "gru_cell": lambda: nn.GRUCell(48, 64),
    "linear": lambda: nn.Linear(48, 64),
    "conv2d": lambda: nn.Conv2d(16, 24, 3, groups=2),
    "conv_transpose2d": lambda: nn.ConvTranspose2d(16, 24, 3, groups=2),
    "embedding": lambda: nn.Embedding(48, 64),
    "layer_norm": lambda: nn.LayerNorm(64),
    "rms_norm": lambda: nn.RMSNorm(64),
    "group_norm": lambda: nn.GroupNorm(4, 64),
    "batch_norm": lambda: nn.BatchNorm2d(64),
}


def main():
    torch.manual_seed(20240613)
    lines = []
    for model, make in MODELS.items():
        lines.append(f"= {model}")
        with Calls() as calls:
            for name, x in make().state_dict().items():
                if model == "encoder" and x.dim() < 2:
                    continue
                if name == "bert.embeddings.word_embeddings.weight":
                    assert (x[0] == 0).all()
                    calls.last[x[1:].data_ptr()] = calls.last[x.data_ptr()]
                    x = x[1:]
                lines.append(f"{name} {calls.rule_of(x)}")
    PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
