#!/usr/bin/env python3
"""Estimates how long training steps take on an H200, from the bytes, operations and launches of each kernel and from rates
that are assumed (bench/estimate/rates.py): of GPT-2 124M, and of the models that model_step has. Nothing is measured: figures
for the first run on a GPU to be held against.

usage: bench/estimate.py [--model NAME] [--rates FILE] [--rows N] [--programs FOLDER] [FLAG...]
       bench/estimate.py --write [--programs FOLDER]

--model NAME       of model_step, in place of GPT-2 as gpt2_step trains it
--rates FILE       JSON: other rates in place of some of those that are assumed
--rows N           of kernels that are printed and that the page has (12)
--programs FOLDER  where gpt2_estimate and model_estimate are: build/release/bench/estimate
FLAG...            of gpt2_step or model_step; what is not given is as in the tables
--write            remakes bench/results/gpt2_estimate.json, bench/results/model_estimate.json and the tables of
                   docs/estimate.md

The programs, targets of builds without CUDA's kernels, are gpt2_step and model_step, linked to a GPU that computes nothing
and writes down what it is given. So the programs' own code decides what is launched: another --scratch-budget, --recompute
or --graphs changes the estimate as it changes a run.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH), str(BENCH / "estimate")]
from pages import between_marks  # noqa: E402
from rates import ASSUMED, RATE_OF_BYTES, RATES, family, gpu_seconds, host_seconds  # noqa: E402
from runs import write_result  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "build" / "release" / "bench" / "estimate"
PAGE = ROOT / "docs" / "estimate.md"
RESULTS = {"gpt2": ROOT / "bench" / "results" / "gpt2_estimate.json", "models": ROOT / "bench" / "results" / "model_estimate.json"}

# What the page and the file have besides.
VARIANTS = ["--half-residual", "--nondeterministic", "--fit-scratch", "--scratch-budget 2147483648",
            "--half-residual --scratch-budget 2147483648", "--graphs", "--batch 16", "--batch 4"]
GPT2 = {"--dtype": "bf16", "--batch": "64"}

IMAGES = {"--dtype": "bf16", "--batch": "256"}
PIXELS = {"--dtype": "bf16", "--batch": "8", "--height": "512", "--width": "512", "--classes": "4"}
TOKENS = {"--dtype": "bf16", "--batch": "64", "--height": "128"}
MODELS = {
    **{name: IMAGES for name in ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg16", "vgg16_bn")},
    "unet": PIXELS,
    "unet_bilinear": PIXELS,
    "maskrcnn": {"--dtype": "bf16", "--batch": "2", "--height": "800", "--width": "1216", "--classes": "91"},
    "lstm": TOKENS,
    "gru": TOKENS,
    "bert": {**TOKENS, "--height": "512"},
    "gpt2": {**TOKENS, "--height": "1024"},
}
# Further rows of the page: flags in place of those above.
OTHERS = {"unet": ["--batch 1 --height 1400 --width 2100"], "lstm": ["--graphs"]}
ROWS = [(model, flags) for model in MODELS for flags in ["", *OTHERS.get(model, [])]]
OPTIMIZER = {"sgd", "adamw", "sum_of_squares"}  # kernels that no activation's bytes go through


def completed(flags, model=None):
    """A program's flags: what is not among `flags` is as in the tables."""
    wanted = GPT2 if model is None else {"--device": "cuda", "--model": model, **MODELS[model]}
    return [*(word for name, value in wanted.items() if name not in flags for word in (name, value)), *flags]


def counted(flags, program="gpt2_estimate"):
    """The kernels of one step, and what the program says of it."""
    path = PROGRAMS / program
    if not path.exists():
        sys.exit(f"bench/estimate.py: {path} is missing; cmake --build --preset release --target {program}")
    with tempfile.NamedTemporaryFile(suffix=".json") as ledger:
        done = subprocess.run([path, "--warmup", "2", "--steps", "1", *flags], env={**os.environ, "HEADROOM_LEDGER": ledger.name},
                              capture_output=True, text=True, check=False)
        if done.returncode < 0:
            names = subprocess.run(["nm", "-C", path], capture_output=True, text=True, check=False).stdout.splitlines()
            missing = [name.strip() for name in names if " w " in name and "CudaStream" in name and "_choices(" not in name]
            sys.exit(f"bench/estimate.py: {program} called a kernel that bench/estimate/counting_kernels.cpp does not count; it is one of\n" +
                     "\n".join(missing))
        if done.returncode != 0:
            sys.exit(f"bench/estimate.py: {done.stderr.strip()}")
        return json.loads(pathlib.Path(ledger.name).read_text(encoding="utf-8")), json.loads(done.stdout)


def estimate(kernels, rates):
    """Times of the GPU, by kernels and their families; a step takes the longer of what the GPU and what the host need."""
    rows = [{"kernel": kernel["kernel"], "launches": kernel["launches"], "gigabytes": round(kernel["bytes"] / 1e9, 3),
             "teraflop": round(kernel["operations"] / 1e12, 3), "milliseconds": round(1e3 * gpu_seconds(kernel, rates), 3)}
            for kernel in kernels]
    rows.sort(key=lambda row: -row["milliseconds"])
    families = collections.Counter()
    for row in rows:
        families[family(row)] += row["milliseconds"]
    gpu = sum(row["milliseconds"] for row in rows)
    host = 1e3 * sum(host_seconds(kernel, rates) for kernel in kernels)
    return {
        "milliseconds_per_step": round(max(gpu, host), 1),
        "gpu_milliseconds": round(gpu, 1),
        "host_milliseconds": round(host, 1),
        "launches": sum(row["launches"] for row in rows),
        "gigabytes": round(sum(row["gigabytes"] for row in rows), 1),
        "teraflop": round(sum(row["teraflop"] for row in rows), 1),
        "largest": rows[0]["kernel"],
        "milliseconds_of_families": {name: round(value, 2) for name, value in families.most_common()},
        "kernels": rows,
    }


def gpt2(flags, rates):
    kernels, step = counted(flags)
    result = estimate(kernels, rates)
    tokens = step["batch"] * step["accumulate"] * step["time"] / result["milliseconds_per_step"]
    return {"scratch_budget": step["scratch_budget"], "predicted_allocated": step["predicted_allocated"],
            "tokens_per_second": round(1e3 * tokens, -3), **result}


def variants(rates):
    """What other flags of gpt2_step change."""
    for text in VARIANTS:
        result = gpt2(completed(text.split()), rates)
        yield {"flags": text, **{name: result[name] for name in ("milliseconds_per_step", "host_milliseconds", "tokens_per_second",
                                                                 "launches", "scratch_budget", "predicted_allocated")}}


def kind(kernel):
    return "products" if kernel["rate"] else "norms" if "_norm" in kernel["kernel"] else "others"


def passes(kernels):
    """Bytes that kernels move, all but the optimizer's, over the bytes that convolutions, products and attention write in the
    forward pass: in all, by what the kernels are, and by their families."""
    results = sum(kernel["results"] for kernel in kernels)
    kinds, families = collections.Counter(), collections.Counter()
    for kernel in kernels:
        if kernel["rate"] != "host" and family(kernel) not in OPTIMIZER:
            kinds[kind(kernel)] += kernel["bytes"] / results
            families[family(kernel)] += kernel["bytes"] / results
    return {"passes": round(sum(kinds.values()), 2),
            "passes_of_kinds": {name: round(kinds[name], 2) for name in ("products", "norms", "others")},
            "passes_of_families": {name: round(value, 2) for name, value in families.most_common() if value >= 0.005}}


def launches(kernels):
    families = collections.Counter()
    for kernel in kernels:
        families[family(kernel)] += kernel["launches"]
    return {"launches": sum(families.values()), "launches_of_families": dict(families.most_common())}


def held(step):
    """Counts that the same code repeats on any machine."""
    return {name: step[name] for name in ("peak_bytes", "peak_reserved", "replayed_ops", "driver_calls", "host_waits")}


def cheap(model, flags):
    kernels, step = counted([*flags, "--recompute", "cheap"], "model_estimate")
    return {**held(step), "launches": launches(kernels)["launches"]}


def model_step(model, rates, flags=()):
    """What the file has of a model, and what `estimate` says of its kernels."""
    flags = completed(list(flags), model)
    kernels, step = counted(flags, "model_estimate")
    result = estimate(kernels, rates)
    times = ("milliseconds_per_step", "gpu_milliseconds", "host_milliseconds", "gigabytes", "teraflop")
    return {"model": model, "flags": flags, **{name: result[name] for name in times},
            **held(step), **passes(kernels), **launches(kernels), "recompute_cheap": cheap(model, flags)}, result


def gpt2_figures(result, rows):
    """Tables in Markdown."""
    share = 100 / result["gpu_milliseconds"]
    lines = [f"**{result['milliseconds_per_step']} ms a step, {result['tokens_per_second']:,.0f} tokens/s**, {result['launches']:,} launches, "
             f"{result['host_milliseconds']} ms of the host, {result['gigabytes']} GB, {result['teraflop']} TFLOP; a peak of "
             f"{result['predicted_allocated'] / 1e9:.2f} GB. The largest term is `{result['largest']}`.", "",
             "| ms | share | kernels of one kind |", "| ---: | ---: | --- |"]
    lines += [f"| {value:.1f} | {share * value:.0f}% | {name} |" for name, value in result["milliseconds_of_families"].items() if value >= 0.5]
    lines += ["", "| ms | launches | GB | TFLOP | kernel, all launches of a step together |", "| ---: | ---: | ---: | ---: | --- |"]
    lines += [f"| {row['milliseconds']:.1f} | {row['launches']} | {row['gigabytes']:.1f} | {row['teraflop']:.2f} | {row['kernel']} |"
              for row in result["kernels"][:rows]]
    lines += ["", "| ms | tokens/s | launches | ms of the host | scratch budget | peak | with these flags instead |",
              "| ---: | ---: | ---: | ---: | ---: | ---: | --- |"]
    lines += [f"| {other['milliseconds_per_step']} | {other['tokens_per_second']:,.0f} | {other['launches']:,} | {other['host_milliseconds']} | "
              f"{other['scratch_budget'] >> 20} MiB | {other['predicted_allocated'] / 1e9:.2f} GB | `{other['flags']}` |"
              for other in result["with_other_flags"]]
    return "\n".join(lines)


def model_figures(result):
    lines = ["| model | its flags | launches | passes | products | norms | others | GB | TFLOP | GPU ms | host ms | ms |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for row in result["models"]:
        flags = " ".join(row["flags"]).replace(f"--device cuda --model {row['model']} ", "").replace("--dtype bf16 ", "")
        kinds = " | ".join(f"{value:.1f}" for value in row["passes_of_kinds"].values())
        lines.append(f"| {row['model']} | `{flags}` | {row['launches']:,} | **{row['passes']:.1f}** | {kinds} | {row['gigabytes']:.1f} | "
                     f"{row['teraflop']:.1f} | {row['gpu_milliseconds']:.1f} | {row['host_milliseconds']:.1f} | "
                     f"**{row['milliseconds_per_step']:.1f}** |")
    return "\n".join(lines)


def rate_figures():
    shown = {"B/s": (1e-12, "TB/s"), "operations/s": (1e-12, "TFLOP/s"), "s": (1e6, "us")}
    lines = ["| assumed | | from |", "| --- | ---: | --- |"]
    for name, rate in ASSUMED.items():
        factor, unit = shown[rate.unit]
        lines.append(f"| {name} | {rate.value * factor:.3g} {unit} | {rate.source} |")
    return "\n".join(lines)


def with_figures(page, results, rows=12):
    """The page with the tables of these results between its marks."""
    for name, figures in (("rates", rate_figures()), ("gpt2", gpt2_figures(results["gpt2"], rows)), ("models", model_figures(results["models"]))):
        page = between_marks(page, f"{name}: figures of bench/estimate.py", figures, str(PAGE))
    return page


def all_results(rates):
    what = "an estimate, not a measurement, at rates that are assumed (bench/estimate/rates.py): "
    return {"gpt2": {"what": what + "a GPT-2 step on one H200", "rates": rates, **gpt2(completed([]), rates),
                     "with_other_flags": list(variants(rates))},
            "models": {"what": what + "steps of model_step's models on one H200. Passes: bytes that kernels move, all but the optimizer's, over "
                                      "the bytes that convolutions, products and attention write in the forward pass",
                       "rates": rates, "models": [model_step(model, rates, flags.split())[0] for model, flags in ROWS]}}


def write():
    results = all_results(RATES)
    for name, result in results.items():
        command = {"command": "bench/estimate.py --write"}
        write_result("", RESULTS[name], result | command)
    PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


def main():
    global PROGRAMS
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "), allow_abbrev=False)
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--rates", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--programs", type=pathlib.Path, default=PROGRAMS)
    parser.add_argument("--write", action="store_true")
    options, flags = parser.parse_known_args()
    PROGRAMS = options.programs
    if options.write:
        if flags or options.model or options.rates:
            parser.error("--write remakes the tables as they are: without other flags")
        return write()
    rates = dict(RATES)
    if options.rates:
        given = json.loads(options.rates.read_text())
        if set(given) - set(RATES):
            sys.exit(f"bench/estimate.py: unknown rates {sorted(set(given) - set(RATES))}; there are {sorted(RATES)}")
        rates.update(given)
    if options.model:
        row, result = model_step(options.model, rates, flags)
        rate = f"{row['passes']} passes over activations"
    else:
        result = gpt2(completed(flags), rates)
        rate = f"{result['tokens_per_second']:.0f} tokens/s"
    print(f"{'ms':>9}{'launches':>10}{'GB':>10}{'TFLOP':>9}  kernel")
    for row in result["kernels"][:options.rows]:
        print(f"{row['milliseconds']:9.3f}{row['launches']:10}{row['gigabytes']:10.3f}{row['teraflop']:9.3f}  {row['kernel']}")
    print(f"{result['milliseconds_per_step']} ms a step ({result['gpu_milliseconds']} of the GPU, {result['host_milliseconds']} of the host), "
          f"{rate}, {result['launches']} launches, {result['gigabytes']} GB, {result['teraflop']} TFLOP: estimated, not measured")


if __name__ == "__main__":
    main()
