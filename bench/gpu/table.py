"""What scripts/gpu has measured, as text: its gpu.json, complete or not. What should not be is marked by "!".

    python3 bench/gpu/table.py gpu.json
"""
import json
import pathlib
import re
import sys


def number(value, form):
    """What was not finite is None."""
    return format("-", ">" + re.match(r"\d*", form)[0]) if value is None else format(value, form)


def gigabytes(count):
    return f"{number(None if count is None else count / 1e9, '.2f')} GB"


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
    if row.get("loss", 0) is None:
        yield "the loss is not finite"
    if row.get("graphs", "off") not in ("on", "off"):
        yield f"graphs were refused: {row['graphs']}"
    yield from not_the_librarys(row)


def way(row):
    """Who computed, and flags of the program that have no value: "headroom --graphs"."""
    return " ".join([row["framework"], *re.findall(r"--[a-z-]+(?= --|$)", row["flags"])])


def failure(what, row):
    return f"! {what}{row['framework']} {row['flags']}: {row['error'].strip()}"


def gpt2(rows):
    for row in rows:
        if "error" in row:
            yield failure("GPT-2 ", row)
            continue
        yield (f"  GPT-2 {row['dtype']:5}{way(row):28} batch {row['batch']:3}{number(row['tokens_per_second'], '10,.0f')} tokens/s"
               f"{number(row['milliseconds_per_step'], '9.2f')} ms a step, {number(row['host_milliseconds_per_step'], '.2f')} for the host "
               f"to queue it, {number(row['first_step_milliseconds'], '.0f')} the first; {gigabytes(row['peak_allocated'])} allocated, "
               f"{gigabytes(row['peak_reserved'])} reserved, {gigabytes(row['used'])} CUDA's")
        yield from (f"  ! {text}" for text in complaints(row))


def milliseconds(seconds, form):
    return number(None if seconds is None else 1e3 * seconds, form)


def models(rows):
    for row in rows:
        if "error" in row:
            yield failure("", row)
            continue
        host = f", {milliseconds(row['host_seconds'], '.2f')} for the host to queue it" if row.get("host_seconds") else ""
        yield (f"  {row['model']:10}{row['dtype']:5}{way(row):28} batch {row['batch']:3}, {row['height']} x {row['width']}"
               f"{number(row['samples_per_second'], '10,.1f')} samples/s{milliseconds(row['seconds'], '9.2f')} ms a step{host}; "
               f"{gigabytes(row['peak_bytes'])} allocated")
        yield from (f"  ! {text}" for text in complaints(row))


def segmentation(rows):
    """Trainings within a budget."""
    for row in rows:
        if "error" in row:
            yield failure("train_segmentation ", row)
            continue
        yield (f"  U-Net in {gigabytes(row['budget_bytes'])}, {row['flags'].split()[-1]}: {row['accumulate']} x {row['batch']} images, "
               f"{milliseconds(row['step_seconds'], '.0f')} ms a step, {row['replayed_ops']} ops run again; planned in "
               f"{number(row['planner_seconds'], '.1f')} s, for {milliseconds(row['step_seconds_predicted'], '.0f')} ms; "
               f"{gigabytes(row['peak_bytes_reserved'])} reserved, {gigabytes(row['used'])} CUDA's")
        for name, what in (("peak_bytes_allocated", "peak_bytes_predicted"), ("peak_bytes_reserved", "peak_bytes_reserved_predicted")):
            if row[name] != row[what]:
                yield f"  ! {gigabytes(row[name])} of {name.removeprefix('peak_bytes_')} memory, of which {gigabytes(row[what])} were predicted"
        if row["peak_bytes_reserved"] > row["budget_bytes"]:
            yield "  ! more than the budget"
        if row["train_loss"] is None:
            yield "  ! the loss is not finite"


def kernels(result):
    if "error" in result:
        yield f"! kernels: {result['error']}"
    if "kernels" not in result:
        return
    yield (f"  shares of memory's rate, by a copy at {number(result['copy_gigabytes_per_second'], '.0f')} GB/s, and of the tensor cores', "
           f"by a product at {number(result['product_teraflops'], '.0f')} TFLOP/s")
    yield from (f"! {text}" for text in not_the_librarys(result))
    for row in result["kernels"]:
        yield (f"  {row['name']:64}{number(row['milliseconds'], '10.4f')} ms{number(row['share_of_copy'], '8.1%')} of memory"
               f"{number(row['share_of_product'], '8.1%')} of tensor cores")


def tests(result, name="tests"):
    yield (f"  {name}: {result['passed']} passed, {len(result['failed'])} failed, {len(result['not_run'])} not run"
           f"{', stopped at the limit' if result['stopped'] else ''}")
    for what in ("failed", "not_run", "skipped"):
        yield from (f"! {what.replace('_', ' ')}: {name}" for name in result[what])


def dist(result):
    yield from tests(result["tests"], "tests of NCCL")
    if "ranks" not in result:
        return
    what = f"{result['ranks']} ranks over NCCL, {result['gpus']} GPUs"
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
        yield f"  {name:44}{number(milliseconds, '10.4f')} ms for a step"


def allocator(results):
    for name, result in results.items():
        if "error" in result:
            yield f"! allocator, {name}: {result['error']}"
        for row in result.get("rows", []):
            if "allocator" in row:  # ours and CUDA's; else PyTorch's
                ratio, who, time = row["peak_reserved"] / row["peak_live"], row["allocator"], f"{number(row['nanoseconds_per_call'], '8.0f')} ns a call"
            else:
                ratio, who, time = row["whole"]["ratio"], name, ""
            yield f"  {row['trace']:14}{who:28}{ratio:8.4f} reserved for a byte that is live{time}"


def sanitizer(results):
    for name, text in results.items():
        yield f"  {name}: clean" if text == "clean" else f"! {name}: {text.strip().splitlines()[-1]}"


def table(results):
    card = results["gpu"]
    lines = [f"{card['name']}, driver {card['driver']}, {results['date']}{', --quick: no figures' if results['quick'] else ''}"]
    lines += [f"! build of {target}: {state}" for target, state in results.get("build", {}).items() if state != "done"]
    for part in (gpt2, models, segmentation, kernels, dist, tests, uploads, allocator, sanitizer):
        if part.__name__ in results:
            lines += part(results[part.__name__])
    lines += [f"! not done: {step}" for step in results["not_done"]]
    return "\n".join(lines)


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(table(json.loads(pathlib.Path(path).read_text(encoding="utf-8"))))
