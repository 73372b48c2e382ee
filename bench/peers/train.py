#!/usr/bin/env python3
"""Trains one of the models of examples/models in PyTorch for a few steps, on random data, by one of the ways to save memory
that PyTorch's and Hugging Face's guides name, and prints one JSON object; or lists the ways. memory_speed --peers runs it.
PyTorch is a peer to compare with, not a dependency: python3 -m pip install torch==2.15.0 torchvision transformers.

    python3 bench/peers/train.py --model gpt2 --batch 4 --block 128 --technique "gradient checkpointing"
    python3 bench/peers/train.py --model gpt2 --batch 4 --list
"""
import argparse
import importlib
import json
import math
import os
import sys

FAMILIES = {
    "tokens": ["gpt", "gpt2", "bert"],
    "images": ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg16", "vgg16_bn", "mlp"],
    "pixels": ["unet", "unet_bilinear", "maskrcnn"],
    "recurrent": ["lstm", "gru"],
}
FAMILY = {model: family for family, models in FAMILIES.items() for model in models}
# Usual sizes, as in examples/models/models.cpp.
SIZES = {"batch": 32, "height": 224, "width": 224, "block": 128, "classes": 1000, "layers": 12}
UNET = {"batch": 8, "height": 512, "width": 512, "classes": 2}
SIZES_OF = {
    "gpt": {"width": 256, "block": 256, "classes": 65},
    "gpt2": {"block": 1024},
    "bert": {"block": 512},
    "mlp": {"height": 28, "width": 28, "classes": 10, "layers": 40},
    "unet": UNET,
    "unet_bilinear": UNET,
    "maskrcnn": {"batch": 2, "height": 800, "width": 1216, "classes": 91},
}
# By the names that memory_speed's --techniques has, where it has them.
TECHNIQUES = {
    "baseline": "baseline",
    "checkpointing": "gradient checkpointing",
    "accumulation": "gradient accumulation",
    "smaller_batch": "smaller batch",
    "mixed_precision": "mixed precision",
    "optimizer": "optimizer",
    "compiled": "compiled",
    "plan": "activation memory budget",
    "sdpa": "no SDPA",
    "channels_last": "NCHW",
}
COMPILED = ("compiled", "activation memory budget")
INSTALL = "python3 -m pip install torch==2.15.0 torchvision transformers"


def lacks(model, technique):
    """Whether there is nothing in the model that the technique would change."""
    return {
        "gradient checkpointing": model in ("lstm", "gru", "vgg16", "vgg16_bn"),
        "no SDPA": FAMILY[model] != "tokens",
        "NCHW": FAMILY[model] not in ("images", "pixels") or model == "mlp",
    }.get(technique, False)


def ways(flags):
    """The rows of each technique: names, and the flags that differ from the baseline's."""
    batch = flags.batch
    powers = [1 << i for i in range(1, batch.bit_length())]
    other = "sgd" if flags.optimizer == "adamw" else "adamw"
    dtypes = ["f32", "bf16", *(["f16"] if flags.device == "cuda" else [])]
    return {
        "baseline": {"keep all": {}},
        "gradient checkpointing": {"layers" if flags.model == "bert" else "blocks": {}},
        "gradient accumulation": {f"{n} x {batch // n}": {"batch": batch // n, "accumulate": n}
                                  for n in powers if batch % n == 0},
        "smaller batch": {f"batch {batch // n}": {"batch": batch // n} for n in powers},
        "mixed precision": {dtype: {"dtype": dtype} for dtype in dtypes if dtype != flags.dtype},
        "optimizer": {other: {"optimizer": other}},
        "compiled": {"compiled": {}},
        "activation memory budget": {f"budget {fraction:g}": {"fraction": fraction} for fraction in flags.fractions},
        "no SDPA": {"keep all": {}},
        "NCHW": {"keep all": {}},
    }


def rows(flags):
    """What --list prints; `arguments` are those of the row, beside the model's, the device's and the sizes'."""
    asked = set(flags.techniques or TECHNIQUES)
    result = []
    for short, technique in TECHNIQUES.items():
        if lacks(flags.model, technique) or not {short, technique} & asked:
            continue
        for name, changed in ways(flags)[technique].items():
            row = {"dtype": flags.dtype, "optimizer": flags.optimizer, "batch": flags.batch, "accumulate": 1}
            options = {"technique": technique, **row, **changed}
            arguments = [word for option, value in options.items() for word in (f"--{option}", str(value))]
            row |= {key: value for key, value in changed.items() if key in row}
            result.append({"technique": technique, "name": name, **row, "arguments": arguments, "compiled": technique in COMPILED})
    return result


def whole(text):
    if int(text) < 1:
        raise ValueError
    return int(text)


def fraction_of(text):
    if not 0 <= float(text) <= 1:
        raise ValueError
    return float(text)


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="train.py", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--model", choices=list(FAMILY), required=True)
    parser.add_argument("--technique", choices=list(TECHNIQUES.values()), default="baseline")
    parser.add_argument("--dtype", choices=["f32", "bf16", "f16"], default="f32", help="bf16 and f16 use autocast")
    parser.add_argument("--optimizer", choices=["adamw", "sgd"], default="adamw")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    for name in SIZES:
        parser.add_argument(f"--{name}", type=whole)
    for name, default in {"accumulate": 1, "steps": 5, "longest": 30, "threads": os.cpu_count()}.items():
        parser.add_argument(f"--{name}", type=whole, default=default)
    parser.add_argument("--fraction", type=fraction_of, help="activation memory budget, as a share of what the baseline keeps")
    parser.add_argument("--no-peak", dest="peak", action="store_false", help="measure only the time, on a CPU")
    parser.add_argument("--list", action="store_true", help="print the rows of the model")
    parser.add_argument("--techniques", type=lambda text: text.split(","),
                        help="only rows of these; those that PyTorch lacks are skipped")
    parser.add_argument("--fractions", type=lambda text: [fraction_of(word) for word in text.split(",")],
                        default=[0.05, 0.1, 0.3, 0.5, 1.0], help="activation memory budgets to list")
    flags = parser.parse_args(arguments)
    if not flags.list and (flags.technique == "activation memory budget") != (flags.fraction is not None):
        parser.error("--technique 'activation memory budget' and --fraction need each other")
    flags.compiled = flags.technique in COMPILED
    for name, usual in {**SIZES, **SIZES_OF.get(flags.model, {})}.items():
        if getattr(flags, name) is None:
            setattr(flags, name, usual)
    return flags


def fail(text):
    print(f"train.py: {text}", file=sys.stderr)
    sys.exit(1)


def run(flags):
    """What a training prints."""
    if lacks(flags.model, flags.technique):
        fail(f"{flags.model} has nothing that '{flags.technique}' would change")
    try:
        training = importlib.import_module("training")
        make = importlib.import_module(FAMILY[flags.model]).MODELS[flags.model]
        result = training.measured(make, flags)
    except TimeoutError:
        fail(f"a step takes more than {flags.longest} s")
    except ImportError as error:
        fail(f"{error}; run {INSTALL}")
    except (RuntimeError, AssertionError, MemoryError, ValueError) as error:  # memory is short, or a size does not fit
        fail((str(error) or type(error).__name__).splitlines()[0])
    if not math.isfinite(result["loss"]):
        fail(f"the loss became {result['loss']}")
    return result


def main():
    flags = parse()
    print(json.dumps(rows(flags) if flags.list else run(flags)))


if __name__ == "__main__":
    main()
