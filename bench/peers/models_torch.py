"""Training steps of whole models in PyTorch, as bench/gpu/model_step.cpp has them: the same sizes, random data,
channels-last, SGD with momentum; eager or compiled, on the CPU or a GPU. Prints one JSON object: seconds of a step, and the
peak of what was live, on the CPU by the profiler, on a GPU by the allocator. PyTorch is a peer to compare with, not a
dependency: pip install torch==2.15.0 torchvision transformers.

    python3 bench/peers/models_torch.py --model resnet50 --batch 8 --height 224 --width 224
"""

import argparse
import contextlib
import json
import statistics
import time

import gpt_torch
import torch
from torch import nn

from profiled_peak import profiled_peak


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
    """torchvision's by its defaults, all of it trained, without resizing; the sum of its losses. Unless `few_masks`, a region
    shows an object that it touches, so that a quarter of the sampled ones have masks, as many as there can be."""

    def __init__(self, flags):
        super().__init__()
        import torchvision  # pylint: disable=import-outside-toplevel
        overlap = 0.5 if flags.few_masks else 1e-3
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


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        import transformers  # pylint: disable=import-outside-toplevel
        self.model = transformers.BertForMaskedLM(transformers.BertConfig())

    def forward(self, ids):
        return self.model(ids).logits.transpose(1, 2)


def make(flags, device):
    """A model, its input and its targets."""
    if flags.model in ("bert", "gpt2"):
        model, kinds = (Bert(), 30522) if flags.model == "bert" else (gpt_torch.Gpt(50257, 1024, 12, 12, 768), 50257)
        ids = torch.randint(1, kinds, (flags.batch, flags.height), device=device)
        return model.to(device), ids, ids
    shape = (flags.batch,)
    if flags.model == "maskrcnn":
        model = MaskRcnn(flags)
    elif flags.model in ("unet", "unet_bilinear"):
        model = UNet(flags.classes, flags.model == "unet_bilinear")
        shape = (flags.batch, flags.height, flags.width)
    else:
        import torchvision  # pylint: disable=import-outside-toplevel
        model = getattr(torchvision.models, flags.model)(num_classes=flags.classes)
    model = model.to(device, memory_format=torch.channels_last)
    images = torch.randn(flags.batch, 3, flags.height, flags.width, device=device)
    targets = objects(flags, device) if flags.model == "maskrcnn" else torch.randint(flags.classes, shape, device=device)
    return model, images.contiguous(memory_format=torch.channels_last), targets


class Training:
    def __init__(self, flags, device):
        self.model, self.inputs, self.targets = make(flags, device)
        self.returns_loss = flags.model in ("maskrcnn", "gpt2")
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        self.run = torch.compile(self.model) if flags.compile else self.model
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16}.get(flags.dtype)
        self.autocast = (lambda: torch.autocast(device.type, dtype=dtype)) if dtype else contextlib.nullcontext
        self.scaler = torch.amp.GradScaler(device.type, enabled=flags.dtype == "f16")

    def loss(self):
        if self.returns_loss:
            return self.run(self.inputs, self.targets)
        return nn.functional.cross_entropy(self.run(self.inputs), self.targets)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss = self.loss()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()


def two_steps(flags, device):
    """The second one begins with the moments that the first one made."""
    training = Training(flags, device)
    for _ in range(2):
        training.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["f32", "bf16", "f16"], default="f32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--no-peak", action="store_true", help="of the CPU: seconds alone")
    parser.add_argument("--few-masks", action="store_true", help="of maskrcnn: those that it finds untrained")
    sizes = {"batch": 8, "height": 224, "width": 224, "classes": 1000, "warmup": 2, "steps": 5, "threads": 2}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    torch.manual_seed(1)
    device = torch.device(flags.device)
    peak = None if flags.device == "cuda" or flags.no_peak else profiled_peak(lambda: two_steps(flags, device))
    training = Training(flags, device)
    for _ in range(flags.warmup):
        training.step()
    seconds = []
    for _ in range(flags.steps):
        begin = time.perf_counter()
        loss = training.step()
        seconds.append(time.perf_counter() - begin)
    if flags.device == "cuda":
        peak = torch.cuda.max_memory_allocated()
    median = statistics.median(seconds)
    print(json.dumps({
        "framework": "torch " + torch.__version__ + (" compiled" if flags.compile else " eager"), "model": flags.model,
        "batch": flags.batch, "height": flags.height, "width": flags.width, "dtype": flags.dtype,
        "parameters": sum(p.numel() for p in training.model.parameters()), "seconds": median,
        "samples_per_second": flags.batch / median, "loss": round(loss, 4), "peak_bytes": peak}))


if __name__ == "__main__":
    main()
