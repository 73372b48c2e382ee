"""Models of pixels in PyTorch: U-Net, and torchvision's Mask R-CNN; random images."""

import functools

import torch
import torchvision
from torch import nn

from images import Classifier, with_images


class DoubleConv(nn.Module):
    """Twice: convolution, batch norm, ReLU; the U-Net's."""

    def __init__(self, channels, out, middle=None):
        super().__init__()
        layers = []
        for before, after in ((channels, middle or out), (middle or out, out)):
            layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


class UNet(nn.Module):
    """The structure of milesial's Pytorch-UNet."""

    def __init__(self, classes, bilinear, width=64):
        super().__init__()
        factor = 2 if bilinear else 1
        widths = [width << i for i in range(5)]
        self.first = DoubleConv(3, width)
        self.down = nn.ModuleList(DoubleConv(a, b // (factor if b == widths[-1] else 1)) for a, b in zip(widths, widths[1:]))
        if bilinear:
            self.up = [nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)] * 4
            self.join = nn.ModuleList(DoubleConv(2 * a, a if a == width else a // 2, a) for a in widths[:-1])
        else:
            self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
            self.join = nn.ModuleList(DoubleConv(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        stages = [self.first(x)]
        for down in self.down:
            stages.append(down(nn.functional.max_pool2d(stages[-1], 2)))
        x = stages.pop()
        for up, join in zip(reversed(self.up), reversed(self.join)):
            x, beside = up(x), stages.pop()
            high, wide = beside.shape[2] - x.shape[2], beside.shape[3] - x.shape[3]
            if high or wide:
                x = nn.functional.pad(x, [wide // 2, wide - wide // 2, high // 2, high - high // 2])
            x = join(torch.cat([beside, x], dim=1))
        return self.last(x)


class MaskRcnn(nn.Module):
    """torchvision's by its defaults, all of it trained, without resizing; the sum of its losses. But a region shows an object
    that it touches, so that a quarter of the sampled ones have masks, as many as there can be."""

    def __init__(self, flags):
        super().__init__()
        overlap = 1e-3
        self.model = torchvision.models.detection.maskrcnn_resnet50_fpn(
            weights=None, weights_backbone=None, num_classes=flags.classes, min_size=min(flags.height, flags.width),
            max_size=max(flags.height, flags.width), box_fg_iou_thresh=overlap, box_bg_iou_thresh=overlap)

    def forward(self, images, targets):
        return sum(self.model(list(images), targets).values())


def objects(flags, device):
    """Ten of each image, on a diagonal, with sides of a twentieth to half of the image's."""
    begin = torch.arange(10) * 0.05
    places = torch.stack([begin, begin, 2 * begin + 0.05, 2 * begin + 0.05], dim=1)
    boxes = (places * torch.tensor([flags.width, flags.height] * 2)).to(device)
    return [{"boxes": boxes, "labels": torch.randint(1, flags.classes, (10,), device=device),
             "masks": torch.ones(10, flags.height, flags.width, dtype=torch.uint8, device=device)} for _ in range(flags.batch)]


def unet(flags, device, bilinear=False):
    network = UNet(flags.classes, bilinear)
    model, images = with_images(Classifier(network), flags, device)
    targets = torch.randint(flags.classes, (flags.batch, flags.height, flags.width), device=device)
    return model, (images, targets), [module for module in network.modules() if isinstance(module, DoubleConv)]


def maskrcnn(flags, device):
    model, images = with_images(MaskRcnn(flags), flags, device)
    blocks = [module for module in model.modules() if isinstance(module, torchvision.models.resnet.Bottleneck)]
    return model, (images, objects(flags, device)), blocks


MODELS = {"unet": unet, "unet_bilinear": functools.partial(unet, bilinear=True), "maskrcnn": maskrcnn}
