"""Classifiers of images in PyTorch: torchvision's ResNets and VGGs, and the perceptron of train_images; random images."""

import functools
import math

import torch
import torchvision
from torch import nn


class Classifier(nn.Module):
    """The loss of a network that classifies images or pixels."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, images, targets):
        return nn.functional.cross_entropy(self.network(images), targets)


class Perceptron(nn.Module):
    """As many hidden layers, in groups of the square root of their number, which are what can be computed again."""

    def __init__(self, values, hidden, layers, classes):
        super().__init__()
        widths = [values] + [hidden] * layers
        steps = [nn.Sequential(nn.Linear(a, b), nn.ReLU(inplace=True)) for a, b in zip(widths, widths[1:])]
        each = math.isqrt(layers)
        self.groups = nn.Sequential(*(nn.Sequential(*steps[i : i + each]) for i in range(0, layers, each)))
        self.last = nn.Linear(hidden, classes)

    def forward(self, images):
        return self.last(self.groups(images.permute(0, 2, 3, 1).flatten(1)))  # as channels lie, so it is no copy


def with_images(model, flags, device):
    """The model and its input, channels-last unless the technique is NCHW."""
    layout = torch.contiguous_format if flags.technique == "NCHW" else torch.channels_last
    images = torch.randn(flags.batch, 3, flags.height, flags.width, device=device).contiguous(memory_format=layout)
    return model.to(device, memory_format=layout), images


def classifier(network, blocks, flags, device):
    model, images = with_images(Classifier(network), flags, device)
    return model, (images, torch.randint(flags.classes, (flags.batch,), device=device)), blocks


def published(name, flags, device):
    network = getattr(torchvision.models, name)(num_classes=flags.classes)
    kinds = (torchvision.models.resnet.BasicBlock, torchvision.models.resnet.Bottleneck)
    return classifier(network, [module for module in network.modules() if isinstance(module, kinds)], flags, device)


def mlp(flags, device):
    network = Perceptron(3 * flags.height * flags.width, 512, flags.layers, flags.classes)
    return classifier(network, network.groups, flags, device)


NAMES = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg16", "vgg16_bn"]
MODELS = {**{name: functools.partial(published, name) for name in NAMES}, "mlp": mlp}
