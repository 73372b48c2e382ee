"""What scripts/gpu has measured, as text: its gpu.json, complete or not. What should not be is marked by "!".

    python3 bench/gpu/table.py gpu.json
"""
import json
import pathlib
import re
import sys


def gigabytes(count):
    return f"{count / 1e9:.2f} GB"


LIBRARIES = {"attention": "cuDNN", "convolutions": "cuDNN", "products": "cuBLASLt"}


def not_the_librarys(result):
    """What own kernels computed, and why, as `attention_library`, `convolution_library` and `matmul_library` say it."""
    for what, library in LIBRARIES.items():
        said = result.get(what)
        if said and ("own kernels" in said or not re.match(rf"{library} \d", said)):
            yield f"{what} not all by {library}: {said}"


def complaints(row):
    """Of a training's row: what the numbers alone would not tell."""
    for name, what in (("host_waits", "times the host waited for the GPU"), ("allocator_waits", "times the allocator did"),
                       ("driver_calls", "calls of the driver by the allocator")):
        if row.get(name):
            yield f"{row[name]} {what}, in steps that were timed"
    for measured, predicted in (("peak_allocated", "predicted_allocated"), ("peak_bytes", "predicted_bytes")):
        if row.get(predicted, row.get(measured)) != row.get(measured):
            yield f"{gigabytes(row[predicted])} were predicted"
    if row.get("graphs", "off") not in ("on", "off"):
        yield f"graphs were refused: {row['graphs']}"
    yield from not_the_librarys(row)


def gpt2(rows):
    for row in rows:
        framework = row["framework"] + ("" if row.get("graphs", "off") == "off" else ", graphs")
        name = f"GPT-2 {row['dtype']:5}{framework:24} batch {row['batch']:3}"
        if "error" in row:
            yield f"! {name}  {row['error']}"
            continue
        yield (f"  {name}{row['tokens_per_second']:10,} tokens/s{row['milliseconds_per_step']:9.2f} ms a step, "
               f"{row['host_milliseconds_per_step']:.2f} of the host, {row['first_step_milliseconds'] / 1e3:.1f} s the first; "
               f"{gigabytes(row['peak_allocated'])} allocated, {gigabytes(row['peak_reserved'])} reserved, "
               f"{gigabytes(row['used'])} CUDA's")
        yield from (f"  ! {text}" for text in complaints(row))


def models(rows):
    for row in rows:
        name = f"{row['model']:10}{row.get('dtype', ''):5}{row['framework']:24}"
        if "error" in row:
            yield f"! {name}  {row['error']}"
            continue
        yield (f"  {name} batch {row['batch']:3}{row['samples_per_second']:10,.1f} images/s{1e3 * row['seconds']:9.2f} ms a step; "
               f"{gigabytes(row['peak_bytes'])} allocated")
        yield from (f"  ! {text}" for text in complaints(row))


def kernels(result):
    if "error" in result:
        yield f"! kernels: {result['error']}"
    if "kernels" not in result:
        return
    yield (f"  shares of memory's rate, by a copy at {result['copy_gigabytes_per_second']} GB/s, and of the tensor cores', by a "
           f"product at {result['product_teraflops']} TFLOP/s")
    yield from (f"! {text}" for text in not_the_librarys(result))
    for row in result["kernels"]:
        yield (f"  {row['name']:44}{row['milliseconds']:10.4f} ms{100 * row['share_of_copy']:8.1f} % of memory"
               f"{100 * row['share_of_product']:8.1f} % of tensor cores")


def tests(result):
    yield (f"  tests: {result['passed']} passed, {len(result['failed'])} failed, {len(result['not_run'])} not run"
           f"{', stopped at the limit' if result['stopped'] else ''}")
    for what in ("failed", "not_run", "skipped"):
        yield from (f"! {what.replace('_', ' ')}: {name}" for name in result[what])


def dist(result):
    what = f"{result['ranks']} ranks over NCCL, {result['gpus']} GPU{'s' if result['gpus'] > 1 else ''}"
    if "error" in result:
        yield f"! {what}: {result['error'].splitlines()[-1]}"
        return
    one, ranks = result["one"], result["all"]
    same = all(one[name] == ranks[name] for name in ("state_sha256", "val_loss"))
    yield (f"{'  ' if same else '! '}{what}: {'the bits of one' if same else 'other bits than one'}, "
           f"{ranks['tokens_per_second'] / one['tokens_per_second']:.2f} times its {one['tokens_per_second']:,.0f} tokens/s")


def uploads(result):
    if "error" in result:
        yield f"! uploads: {result['error']}"
    for name, milliseconds in result.get("milliseconds", {}).items():
        yield f"  {name:44}{milliseconds:10.4f} ms for a step"


def allocator(results):
    for name, result in results.items():
        if "error" in result:
            yield f"! allocator, {name}: {result['error']}"
        for row in result.get("rows", []):
            if "allocator" in row:  # ours and CUDA's; else PyTorch's
                ratio, who, time = row["peak_reserved"] / row["peak_live"], row["allocator"], f"{row['nanoseconds_per_call']:8.0f} ns a call"
            else:
                ratio, who, time = row["whole"]["ratio"], name, ""
            yield f"  {row['trace']:14}{who:28}{ratio:8.4f} reserved for a byte that is live{time}"


def sanitizer(results):
    for name, text in results.items():
        yield f"  {name}: clean" if text == "clean" else f"! {name}: {text.strip().splitlines()[-1]}"


def table(results):
    card = results["gpu"]
    lines = [f"{card['name']}, driver {card['driver']}, {results['date']}{', --quick: no figures' if results['quick'] else ''}"]
    lines += [f"! build of {target}: {state}" for target, state in results["build"].items() if state != "done"]
    for part in (gpt2, models, kernels, tests, dist, uploads, allocator, sanitizer):
        if part.__name__ in results:
            lines += part(results[part.__name__])
    return "\n".join(lines)


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(table(json.loads(pathlib.Path(path).read_text(encoding="utf-8"))))
