"""Language models of two recurrent layers in PyTorch; random tokens [time, batch], of which all are asked for."""

import functools

import torch
from torch import nn

WIDTH = 512


class Recurrent(nn.Module):
    def __init__(self, layers, classes):
        super().__init__()
        self.tokens = nn.Embedding(classes, WIDTH)
        self.layers = layers(WIDTH, WIDTH, 2)
        self.head = nn.Linear(WIDTH, classes, bias=False)

    def forward(self, ids):
        logits = self.head(self.layers(self.tokens(ids))[0])
        return nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), ids.view(-1))


def recurrent(layers, flags, device):
    ids = torch.randint(flags.classes, (flags.block, flags.batch), device=device)
    return Recurrent(layers, flags.classes).to(device), (ids,), []


MODELS = {"lstm": functools.partial(recurrent, nn.LSTM), "gru": functools.partial(recurrent, nn.GRU)}
