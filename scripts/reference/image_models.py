#!/usr/bin/env python3
"""Writes tests/reference/CASE.safetensors, three training steps of narrow image models in f64, and
tests/reference/image_model_names.txt, for tests/nn/image_models_reference_test.cpp.

    pip install torch torchvision safetensors numpy        # once; written with torch 2.15 and torchvision 0.29
    scripts/reference/image_models.py

ResNet and VGG are torchvision's own layers, made narrower; U-Net is written here after milesial's Pytorch-UNet. In a
file: images, u8 [3, N, 3, H, W], which stand for (image - 128) / 64; targets, u8 [3, N] or [3, N, H, W]; initial/NAME;
losses [3]; gradient/NAME of the first step; trained/NAME after three steps of SGD (rate 0.01, momentum 0.9), buffers
included; evaluated, the logits of the first image then. Of resnet_frozen the stem and the first stage are not trained;
the norms of resnet_frozen_norms are torchvision's FrozenBatchNorm2d.
No dropout. No value is so near to the kink of a ReLU that f32 could take the other side. The list of names has
"= MODEL", then a line NAME [SHAPE] for each tensor of its state.
"""
import itertools
import pathlib

import torch
import torchvision.models as zoo
from safetensors.torch import save_file
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
from torchvision.models.vgg import VGG, make_layers
from torchvision.ops import FrozenBatchNorm2d

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/reference"
STEPS, RATE, MOMENTUM, KINK = 3, 0.01, 0.9, 1e-5
CLASSES, REGIONS = 5, 3


class NarrowResNet(ResNet):
    """torchvision's, which fixes the widths in its constructor."""

    def __init__(self, block, blocks, width, norm=nn.BatchNorm2d):
        nn.Module.__init__(self)
        self._norm_layer = norm
        self.inplanes, self.dilation, self.groups, self.base_width = width, 1, 1, 64
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = norm(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        for i, count in enumerate(blocks):
            setattr(self, f"layer{i + 1}", self._make_layer(block, width << i, count, stride=1 if i == 0 else 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * width * block.expansion, CLASSES)


def narrow_vgg(convolutions, width, hidden, batch_norm):
    layers = []
    for count, factor in zip(convolutions, (1, 2, 4, 8, 8)):
        layers += [factor * width] * count + ["M"]
    model = VGG(make_layers(layers, batch_norm), num_classes=CLASSES, init_weights=False, dropout=0.0)
    sizes = (8 * width * 7 * 7, hidden, hidden, CLASSES)
    for place, (inputs, outputs) in zip((0, 3, 6), zip(sizes, sizes[1:])):
        model.classifier[place] = nn.Linear(inputs, outputs)
    return model


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs, middle=None):
        super().__init__()
        middle = middle or outputs
        self.double_conv = nn.Sequential(
            nn.Conv2d(inputs, middle, 3, padding=1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(inplace=True),
            nn.Conv2d(middle, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(inputs, outputs))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, inputs, outputs, bilinear):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(inputs, outputs, inputs // 2)
        else:
            self.up = nn.ConvTranspose2d(inputs, inputs // 2, 2, stride=2)
            self.conv = DoubleConv(inputs, outputs)

    def forward(self, below, beside):
        x = self.up(below)
        rows, columns = beside.shape[2] - x.shape[2], beside.shape[3] - x.shape[3]
        x = nn.functional.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.conv(torch.cat([beside, x], dim=1))


class OutConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, channels, classes, bilinear, width=64):
        super().__init__()
        factor = 2 if bilinear else 1
        self.inc = DoubleConv(channels, width)
        for i in range(1, 5):
            setattr(self, f"down{i}", Down(width << (i - 1), (width << i) // (factor if i == 4 else 1)))
        for i in range(1, 5):
            inputs = width << (5 - i)
            setattr(self, f"up{i}", Up(inputs, inputs // 2 // (1 if i == 4 else factor), bilinear))
        self.outc = OutConv(width, classes)

    def forward(self, x):
        stages = [self.inc(x)]
        for down in (self.down1, self.down2, self.down3, self.down4):
            stages.append(down(stages[-1]))
        x = stages.pop()
        for up in (self.up1, self.up2, self.up3, self.up4):
            x = up(x, stages.pop())
        return self.outc(x)


def initial_values(model, generator):
    """Values that f32 has, too, so that both dtypes begin alike."""
    def normal(like, deviation, mean=0.0):
        return (mean + deviation * torch.randn(like.shape, generator=generator)).to(torch.float32).double()

    values = {}
    for name, x in model.state_dict().items():
        if name.endswith("num_batches_tracked"):
            values[name] = torch.tensor(4)
        elif x.dim() > 1:
            values[name] = normal(x, (2 * x.shape[0] / x.numel()) ** 0.5)
        elif name.endswith("running_var"):
            values[name] = normal(x, 0.1, 1.0).abs()
        else:
            values[name] = normal(x, 0.1, 1.0 if name.endswith("weight") else 0.0)
    return values


def train(model, initial, images, targets, frozen):
    """What three steps leave; and how near to its kink a ReLU was."""
    model.double().train().load_state_dict(initial)
    nearest = [1.0]
    hooks = [module.register_forward_pre_hook(lambda _, x: nearest.append(x[0].abs().min().item()))
             for module in model.modules() if isinstance(module, nn.ReLU)]
    trained = {name: p for name, p in model.named_parameters() if not name.startswith(frozen)}
    for name, p in model.named_parameters():
        p.requires_grad_(name in trained)
    optimizer = torch.optim.SGD(trained.values(), lr=RATE, momentum=MOMENTUM)
    results = {"losses": []}
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = model(images[step])
        loss = nn.functional.cross_entropy(logits, targets[step])
        loss.backward()
        if step == 0:
            results.update({f"gradient/{name}": p.grad.clone() for name, p in trained.items()})
        optimizer.step()
        results["losses"].append(loss.detach())
    results["losses"] = torch.stack(results["losses"])
    for hook in hooks:
        hook.remove()
    results.update({f"trained/{name}": x.clone() for name, x in model.state_dict().items()})
    with torch.no_grad():
        results["evaluated"] = model.eval()(images[0][:1])
    return results, min(nearest)


def write_case(name, model, batch, size, classes=CLASSES, frozen=(), masks=False):
    for seed in itertools.count(1):
        generator = torch.Generator().manual_seed(seed)
        initial = initial_values(model, generator)
        images = torch.randint(256, (STEPS, batch, 3, *size), generator=generator, dtype=torch.uint8)
        targets = torch.randint(classes, (STEPS, batch, *(size if masks else ())), generator=generator)
        scaled = (images.double() - 128) / 64
        results, nearest = train(model, initial, scaled, targets, frozen)
        if nearest > KINK:
            break
    tensors = {"images": images, "targets": targets.to(torch.uint8), **results}
    for key, x in initial.items():
        tensors[f"initial/{key}"] = x if x.dtype == torch.int64 else x.float()
    target = FOLDER / f"{name}.safetensors"
    save_file({key: x.contiguous() for key, x in tensors.items()}, target)
    target.chmod(0o644)
    print(f"{target.name}: {target.stat().st_size} bytes, seed {seed}, losses "
          f"{[round(x.item(), 4) for x in results['losses']]}, ReLUs {nearest:.1e} from their kinks")


def write_names():
    models = {f"resnet{depth}": getattr(zoo, f"resnet{depth}") for depth in (18, 34, 50, 101, 152)}
    for depth in (11, 13, 16, 19):
        models.update({f"vgg{depth}{norm}": getattr(zoo, f"vgg{depth}{norm}") for norm in ("", "_bn")})
    models["unet"] = lambda: UNet(3, 2, bilinear=False)
    models["unet_bilinear"] = lambda: UNet(3, 2, bilinear=True)
    lines = []
    with torch.device("meta"):
        for name, make in models.items():
            lines.append(f"= {name}")
            lines += [f"{key} {list(x.shape)}" for key, x in make().state_dict().items()]
    (FOLDER / "image_model_names.txt").write_text("\n".join(lines) + "\n")


def main():
    write_names()
    write_case("resnet_basic", NarrowResNet(BasicBlock, (2, 1, 1, 1), 3), 3, (45, 37))
    write_case("resnet_bottleneck", NarrowResNet(Bottleneck, (1, 2, 1, 1), 2), 3, (45, 37))
    write_case("resnet_frozen", NarrowResNet(BasicBlock, (1, 1, 1, 1), 2), 3, (45, 37),
               frozen=("conv1.", "bn1.", "layer1."))
    write_case("resnet_frozen_norms", NarrowResNet(BasicBlock, (1, 1, 1, 1), 1, FrozenBatchNorm2d), 3, (33, 35))
    write_case("vgg", narrow_vgg((1, 1, 2, 2, 2), 2, 6, batch_norm=False), 2, (64, 40))
    write_case("vgg_bn", narrow_vgg((2, 1, 1, 1, 2), 2, 6, batch_norm=True), 2, (64, 40))
    write_case("unet", UNet(3, REGIONS, bilinear=False, width=1), 2, (35, 50), REGIONS, masks=True)
    write_case("unet_bilinear", UNet(3, REGIONS, bilinear=True, width=2), 2, (35, 50), REGIONS, masks=True)


if __name__ == "__main__":
    main()
