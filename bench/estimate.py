#!/usr/bin/env python3
"""Estimates how long a training step of GPT-2 124M takes on an H200, from the bytes and operations of each kernel and from
rates that are assumed. Nothing is measured: a figure for the first run on a GPU to be held against.

usage: bench/estimate.py [--json FILE] [--page FILE] [--rates FILE] [--rows N] [FLAG...]

--json FILE   where the whole estimate goes: bench/results/gpt2_estimate.json
--page FILE   a page whose figures, between two marks, are replaced: docs/estimate.md
--rates FILE  JSON: other rates in place of some of those below
--rows N      of kernels that are printed and that the page has (12); the file has all
FLAG...       of gpt2_step: --batch 64 --dtype bf16 unless given

Needs build/release/bench/estimate/gpt2_estimate (a target of builds without CUDA's kernels): gpt2_step, linked to a GPU
that computes nothing and writes down what it is given. So the program's own code decides what is launched: another
--scratch-budget, --recompute or --graphs changes the estimate as it changes a run.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "release" / "bench" / "estimate" / "gpt2_estimate"

BEGIN, END = "<!-- figures of bench/estimate.py -->", "<!-- end of figures -->"

# Per second. An H200 has 4.8 TB/s and, without sparsity, 989 TFLOP/s for halves, 67 for f32 (NVIDIA's data sheet). The
# shares of these are assumptions: others' kernels were seen to reach 540 to 590 TFLOP/s in products of depth 768, 230 to
# 320 in attention's forward pass, and 76% of the bandwidth in norms, on GPUs of this kind.
RATES = {
    "memory": 0.76 * 4.8e12,
    "product bf16": 0.57 * 989e12,
    "product f16": 0.57 * 989e12,
    "product f32": 0.75 * 67e12,
    "attention": 0.28 * 989e12,
    "attention gradient": 0.20 * 989e12,
    "own product f32": 0.20 * 67e12,
    "own product bf16": 0.15 * 989e12,
    "own product f16": 0.15 * 989e12,
    "launch": 1 / 2e-6,  # between the end of a kernel and the beginning of the next one
}
# What the page and the file have besides.
VARIANTS = ["--half-residual", "--nondeterministic", "--fit-scratch", "--scratch-budget 2147483648",
            "--half-residual --scratch-budget 2147483648", "--graphs", "--batch 16", "--batch 4"]


def completed(flags):
    for name, value in (("--batch", "64"), ("--dtype", "bf16")):
        if name not in flags:
            flags = [name, value, *flags]
    return flags


def counted(flags):
    """The kernels of one step, and what gpt2_step says of it."""
    with tempfile.NamedTemporaryFile(suffix=".json") as ledger:
        done = subprocess.run([PROGRAM, "--warmup", "2", "--steps", "1", *flags], env={**os.environ, "HEADROOM_LEDGER": ledger.name},
                              capture_output=True, text=True, check=False)
        if done.returncode < 0:
            sys.exit("bench/estimate.py: gpt2_estimate called a kernel that bench/estimate/counting_kernels.cpp does not count; it is one of\n" +
                     subprocess.run(f"nm -C {PROGRAM} | grep ' w .*CudaStream'", shell=True, capture_output=True, text=True, check=False).stdout)
        if done.returncode != 0:
            sys.exit(f"bench/estimate.py: {done.stderr.strip()}")
        return json.loads(pathlib.Path(ledger.name).read_text(encoding="utf-8")), json.loads(done.stdout)


def seconds_of(kernel, rates):
    """The longer of moving its bytes and doing its operations; uploads have a queue of their own."""
    if kernel["rate"] == "host":
        return 0.0
    work = kernel["bytes"] / rates["memory"]
    if kernel["rate"]:
        work = max(work, kernel["operations"] / rates[kernel["rate"]])
    return work + kernel["launches"] / rates["launch"]


def estimate(kernels, step, rates):
    rows = [{"kernel": kernel["kernel"], "launches": kernel["launches"], "gigabytes": round(kernel["bytes"] / 1e9, 3),
             "teraflop": round(kernel["operations"] / 1e12, 3), "milliseconds": round(1e3 * seconds_of(kernel, rates), 3)}
            for kernel in kernels]
    rows.sort(key=lambda row: -row["milliseconds"])
    families = collections.Counter()
    for row in rows:
        families[row["kernel"].split(" [")[0]] += row["milliseconds"]
    total = sum(row["milliseconds"] for row in rows)
    return {
        "milliseconds_per_step": round(total, 1),
        "tokens_per_second": round(1e3 * step["batch"] * step["accumulate"] * step["time"] / total, -3),
        "launches": sum(row["launches"] for row in rows),
        "gigabytes": round(sum(row["gigabytes"] for row in rows), 1),
        "teraflop": round(sum(row["teraflop"] for row in rows), 1),
        "largest": rows[0]["kernel"],
        "milliseconds_of_families": {name: round(value, 2) for name, value in families.most_common()},
        "kernels": rows,
    }


def variants(rates):
    """What other flags of gpt2_step change."""
    for text in VARIANTS:
        kernels, step = counted(completed(text.split()))
        result = estimate(kernels, step, rates)
        yield {"flags": text, **{name: result[name] for name in ("milliseconds_per_step", "tokens_per_second", "launches")},
               **{name: step[name] for name in ("scratch_budget", "predicted_allocated")}}


def figures_for_page(result, others, rates, rows):
    """Tables in Markdown."""
    share = 100 / result["milliseconds_per_step"]
    lines = [f"**{result['milliseconds_per_step']} ms a step, {result['tokens_per_second']:,.0f} tokens/s**, {result['launches']:,} launches, "
             f"{result['gigabytes']} GB, {result['teraflop']} TFLOP; a peak of {result['predicted_allocated'] / 1e9:.2f} GB. The largest term is `{result['largest']}`.", "",
             "| ms | share | kernels of one kind |", "| ---: | ---: | --- |"]
    lines += [f"| {value:.1f} | {share * value:.0f}% | {name} |" for name, value in result["milliseconds_of_families"].items() if value >= 0.5]
    lines += ["", "| ms | launches | GB | TFLOP | kernel, all launches of a step together |", "| ---: | ---: | ---: | ---: | --- |"]
    lines += [f"| {row['milliseconds']:.1f} | {row['launches']} | {row['gigabytes']:.1f} | {row['teraflop']:.2f} | {row['kernel']} |"
              for row in result["kernels"][:rows]]
    lines += ["", "| ms | tokens/s | launches | scratch budget | peak | with these flags instead |", "| ---: | ---: | ---: | ---: | ---: | --- |"]
    lines += [f"| {other['milliseconds_per_step']} | {other['tokens_per_second']:,.0f} | {other['launches']:,} | {other['scratch_budget'] >> 20} MiB | "
              f"{other['predicted_allocated'] / 1e9:.2f} GB | `{other['flags']}` |" for other in others]
    lines += ["", "| rate that is assumed | each second |", "| --- | ---: |"]
    lines += [f"| {name} | {value:.3g} |" for name, value in rates.items() if not name.startswith("own ")]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "), allow_abbrev=False)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--rates", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=12)
    options, flags = parser.parse_known_args()
    flags = completed(flags)
    rates = dict(RATES)
    if options.rates:
        given = json.loads(options.rates.read_text())
        if set(given) - set(RATES):
            sys.exit(f"bench/estimate.py: unknown rates {sorted(set(given) - set(RATES))}; there are {sorted(RATES)}")
        rates.update(given)
    if not PROGRAM.exists():
        sys.exit(f"bench/estimate.py: {PROGRAM} is missing; cmake --build --preset release --target gpt2_estimate")
    kernels, step = counted(flags)
    result = {"scratch_budget": step["scratch_budget"], "predicted_allocated": step["predicted_allocated"],
              **estimate(kernels, step, rates)}
    print(f"{'ms':>9}{'launches':>10}{'GB':>10}{'TFLOP':>9}  kernel")
    for row in result["kernels"][:options.rows]:
        print(f"{row['milliseconds']:9.3f}{row['launches']:10}{row['gigabytes']:10.3f}{row['teraflop']:9.3f}  {row['kernel']}")
    print(f"{result['milliseconds_per_step']} ms a step, {result['tokens_per_second']:.0f} tokens/s, {result['launches']} launches, "
          f"{result['gigabytes']} GB, {result['teraflop']} TFLOP: estimated, not measured")
    others = list(variants(rates)) if options.json or options.page else []
    if options.json:
        head = {"date": datetime.date.today().isoformat(),
                "what": "an estimate, not a measurement: each kernel takes as long as its bytes or its operations take at the rates "
                        "below, which are assumed, and each launch a little more; a GPT-2 step on one H200",
                "command": "bench/estimate.py " + " ".join(flags), "rates_per_second": rates}
        options.json.write_text(json.dumps({**head, **result, "with_other_flags": others}, indent=1) + "\n")
    if options.page:
        before, _, rest = options.page.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        if not after:
            sys.exit(f"bench/estimate.py: {options.page} has no marks {BEGIN} and {END}")
        options.page.write_text(f"{before}{BEGIN}\n\n{figures_for_page(result, others, rates, options.rows)}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
