#!/usr/bin/env python3
"""The tables and pictures of README and docs that have figures of bench/results: remakes them from the files, or says which
differ.

usage: bench/tables.py [--write]

A table stands between <!-- NAME: figures of bench/tables.py --> and <!-- end of figures -->, and is a function here.
docs/estimate.md's are those of bench/estimate.py.
"""
import pathlib
import re
import sys

import plan_picture
import speed_picture
import time_picture
from comparison import Comparison, allocated, faster, memory_of, result
from pages import between_marks

ROOT = pathlib.Path(__file__).resolve().parent.parent


def megabytes(count):
    return f"{count / 1e6:,.0f} MB"


def gigabytes(count):
    return f"{count / 1e9:.1f} GB"


def table(head, rows):
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


MODELS = {"gpt": "GPT, 12 x 256", "resnet18": "ResNet-18", "resnet50": "ResNet-50", "vgg16": "VGG-16",
          "vgg16_bn": "VGG-16 with batch norm", "unet": "U-Net, base width 64", "unet_bilinear": "the same, bilinear",
          "maskrcnn": "Mask R-CNN, ResNet-50 FPN", "bert": "BERT-base, hidden words", "gpt2": "GPT-2 124M", "lstm": "LSTM, 2 x 512",
          "gru": "GRU, 2 x 512"}


FRONTS = ("gpt", "resnet50", "unet", "lstm", "bert")  # of which all techniques are compared with PyTorch's


def inputs(file):
    """ "8 x 224 x 224" for images, "4 x 128 tokens" for text."""
    return re.sub(r" (images?|sequences?) of ", " x ", file["inputs"])


def peaks():
    """docs/results.md's: what some models take, with PyTorch in turn."""
    rows = []
    for model in FRONTS:
        compared = Comparison(model)
        of = lambda row, compared=compared: f"{megabytes(memory_of(row))}, {faster(row, compared.eager):.2f}"
        rows.append([MODELS[model], inputs(compared.file), *(of(row) for row in (
            compared.eager, compared.smallest("pytorch"), compared.kept, compared.smallest("headroom"))),
            f"[{compared.name}.json](../bench/results/{compared.name}.json)"])
    return table(["model", "input", "PyTorch eager", "PyTorch, the least", "Headroom, keeping all", "Headroom, the least", "result file"], rows)


def terminal():
    """README's: what train_gpt printed, without some of its lines."""
    planned, kept, refused = result("budget_demo")["rows"]

    def line_of(row, begin):
        return next(line for line in row["lines"] if line.startswith(begin))

    assert planned["state_sha256"] == kept["state_sha256"]
    lines = [f"$ {planned['command']}", line_of(planned, "plan:").partition(";")[0] + "; ...",
             line_of(planned, "predicted peak").partition(",")[0] + ", ...", line_of(planned, "peak memory"),
             f"$ {kept['command']}", line_of(kept, "peak memory"),
             "$ grep -h state_sha256 planned.json kept.json | uniq -c", f'      2   "state_sha256": "{kept["state_sha256"]}",',
             f"$ {refused['command']}", refused["lines"][0].partition(",")[0] + ", ..."]
    return "\n".join(["```text", *lines, "```"])


def cards():
    """README's: the largest GPT-2 by card, predicted."""
    rows, table_rows = result("cards")["rows"], []
    for gpu, memory in {None: 8, "RTX 2080 Ti": 11, "RTX 3060": 12, "T4": 16, "RTX 3090": 24}.items():
        of_gpu = [row for row in rows if row["gpu"] == gpu]
        plan = [row for row in of_gpu if row["method"] == "plan" and row["fits"]][-1]
        keeping, blocks = (next(row for row in of_gpu if (row["model"], row["method"]) == (plan["model"], method))
                           for method in ("none", "blocks"))
        time = f"{plan['step_seconds_predicted'] / blocks['step_seconds_predicted']:.2f}" if blocks["fits"] else "does not fit"
        table_rows.append([f"{memory} GB" + (f" ({gpu})" if gpu else ""), plan["model"], f"{plan['accumulate']} x {plan['batch']}",
                           gigabytes(plan["peak_bytes_reserved_predicted"]), gigabytes(keeping["floor_bytes"]), time,
                           f"{plan['largest']} ({keeping['largest']})"])
    return table(["card", "largest model", "plan: micro-batches", "reserved", "keeping all needs", "step time, recomputing each block = 1",
                  "largest micro-batch (keeping all)"], table_rows)


def fronts():
    """docs/models.md's: points of PyTorch's that Headroom does not reach."""
    rows = []
    for model in FRONTS:
        compared = Comparison(model)
        theirs, uncovered = compared.uncovered()
        what = "; ".join(f"{row['technique']}: {row['name']}" for row in uncovered) or "none"
        rows.append([MODELS[model], f"{len(theirs)}", f"{len(uncovered)}", what, f"[{compared.name}.json](../bench/results/{compared.name}.json)"])
    return table(["model", "points of PyTorch", "not reached", "which", "result file"], rows)


def memory_and_speed():
    """docs/models.md's, of all models."""
    rows = []
    for model, title in MODELS.items():
        compared = Comparison(model)
        kept, cheap, blocks, eager = compared.kept, compared.cheap(), compared.checkpointed("headroom"), compared.eager
        torch_blocks = compared.checkpointed("pytorch")
        peaks_of = [megabytes(allocated(row)) if row else "" for row in (kept, cheap, blocks, eager, torch_blocks)]
        ratios = [allocated(row) / allocated(eager) for row in (kept, cheap)] + [faster(kept, eager), faster(kept, cheap)]
        rows.append([title, inputs(compared.file), *peaks_of, *(f"{ratio:.2f}" for ratio in ratios),
                     f"[{compared.name}.json](../bench/results/{compared.name}.json)"])
    return table(["model", "input", "keeping all", "cheap", "least", "PyTorch", "PyTorch, blocks", "keeping all / PyTorch's", "cheap / PyTorch's",
                  "speed", "time of cheap", "result file"], rows)


def fits():
    """As what_fits prints it."""
    file = result("what_fits")
    gpus = list(dict.fromkeys(row["gpu"] for row in file["rows"]))
    lines = ["A step's time, predicted from data sheets; -: does not fit; / 4: in 4 micro-batches; 629.1 MB are left to CUDA"]
    for model, what in file["inputs"].items():
        lines += [f"{model}: {what}", f"{'least':>19}" + "".join(f"{gpu:>14}" for gpu in gpus)]
        for method in dict.fromkeys(row["method"] for row in file["rows"] if row["model"] == model):
            rows = [row for row in file["rows"] if (row["model"], row["method"]) == (model, method)]
            times = [f"{1e3 * row['step_seconds_predicted']:.1f} ms" + (f" / {row['accumulate']}" if row["accumulate"] > 1 else "")
                     if row["fits"] else "-" for row in rows]
            lines.append(f"  {method:<7}{gigabytes(rows[0]['floor_bytes']):>10}" + "".join(f"{text:>14}" for text in times))
    return "\n".join(["```text", *lines, "```"])


def techniques():
    """As memory_speed prints it, predicted."""
    file = result("memory_speed_gpt2_24gb")
    lines = [f"{'':<35}{'dtype':>6}{'batch':>8}{'reserved':>10}{'step':>9}{'samples/s':>12}{'again':>8}"]
    for row in file["rows"]:
        batch = f"{row['accumulate']}x{row['batch']}"
        lines.append(f"{row['technique']:<23}{row['name']:<12}{row['dtype']:>6}{batch:>8}{gigabytes(row['peak_bytes_reserved_predicted']):>10}"
                     f"{row['step_seconds_predicted']:>8.3f}s{row['samples_per_second']:>12.1f}{row['replayed_ops']:>8}")
    return "\n".join(["```text", *lines, "```"])


def large_images():
    """What fits of a U-Net on large images, as memory_speed --within predicts it."""
    file = result("memory_speed_unet_large")
    rows = [[row["technique"], row["name"], f"{row['accumulate']} x {row['batch']}", gigabytes(row["peak_bytes_reserved_predicted"]),
             "yes" if row["fits"] else "no", f"{row['replayed_ops']}"] for row in file["rows"]]
    return table(["technique", "", "micro-batches", "reserved", "fits", "ops run again"], rows)


def benchmark(file, name):
    """The row of Google Benchmark's whose name begins so."""
    return next(row for row in result(file)["benchmarks"] if row["name"].startswith(name))


def calls(name):
    row = benchmark("allocator_calls", name)
    allocate, free = ([round(row[f"{call}_{part}_ns"], -1) for part in ("p50", "p99")] for call in ("allocate", "free"))
    return f"{allocate[0]:.0f} and {allocate[1]:.0f} ns, {free[0]:.0f} and {free[1]:.0f} ns"


def of_torch(model):
    """Peaks relative to PyTorch's, keeping all and by `recompute_cheap`."""
    compared = Comparison(model)
    return " and ".join(f"{allocated(row) / allocated(compared.eager):.2f}" for row in (compared.kept, compared.cheap()))


def rehearsed(half_residual):
    rows = [row for row in result("gpt2_rehearsed")["rows"] if row["dtype"] == "bf16" and not row["graphs"]]
    peaks_of = [f"{row['predicted_allocated'] / 1e9:.1f}" for row in rows if row["half_residual"] == half_residual]
    return f"{', '.join(peaks_of[:-1])} and {peaks_of[-1]} GB"


def speed(model):
    """Beside PyTorch's eager one, and the file."""
    compared = Comparison(model)
    return f"{faster(compared.kept, compared.eager):.2f} times as many", compared.name


def recomputed_share(kept, again):
    """Of what a training has in use beyond its state, the share that is left if it recomputes; both end with the same bits."""
    assert kept["state_sha256"] == again["state_sha256"]
    beyond = [run["peak_bytes_allocated"] - run["resident_bytes"] for run in (again, kept)]
    return beyond[0] / beyond[1]


def results():
    """docs/results.md's: what was measured, its figure, and the files."""
    small, seeds = result("gpt_small_seeds"), {
        name: result(f"{name}_seeds") for name in ("images", "segmentation", "detection", "lstm", "gru", "bert")}
    share = recomputed_share(result("gpt_12_blocks_none"), result("gpt_12_blocks_blocks"))
    stream, busy = result("residual_stream"), result("busy_machine")["median"]
    traces = max(row[part]["ratio"] for row in result("allocator_traces")["rows"] for part in ("whole", "steady"))
    unet = next(row for row in result("unet_large_images")["rehearsed"] if row["recompute"] == "cheap")
    planned = {row["dtype"]: gigabytes(row["peak_bytes_reserved_predicted"]) for row in result("unet_large_images")["planned"]}
    compared = {model: f"memory_speed_{model}" for model in MODELS}
    gpu, host = (benchmark("allocator", f"two_threads_for_one/{where}/live:1000/history:0")["ratio"] for where in ("gpu", "host"))
    threads = {when: busy[f"{when}, 2 threads, 0 busy processes"] / busy[f"{when}, 1 threads, 0 busy processes"] for when in ("now", "before")}
    seconds = {name: file["mean_wall_seconds"] for name, file in seeds.items()}
    ops = {name: 1e9 * benchmark("tape", f"{name}_median")["time_per_op"] for name in ("RecordAndDrop", "Backward")}
    rows = [
        ("small GPT (4 layers, width 128), tokens/s beside PyTorch 2.15 eager", *speed("gpt_small")),
        ("larger GPT (4 layers, width 768), the same", *speed("gpt_large")),
        ("small GPT, peak of the allocator with `train_gpt`'s defaults",
         f"{small['runs'][0]['peak_bytes_allocated'] / 1e6:.1f} MB", "gpt_small_seeds"),
        ("small GPT, loss over the whole validation split of tiny Shakespeare after 2,000 steps, mean of three seeds",
         f"{small['mean_val_loss']:.3f}", "gpt_small_seeds"),
        ("small GPT in bf16, mean loss of three seeds after 500 steps: residual stream in bf16 relative to f32",
         f"{stream['mean_val_loss']['bf16']:.4f} and {stream['mean_val_loss']['f32']:.4f}, at most "
         f"{stream['largest_difference_of_a_seed']:.4f} apart for a seed", "residual_stream"),
        ("12 blocks: peak beyond parameters and optimizer state when each block is recomputed, relative to keeping all",
         f"{share:.1%}, and the same `state_sha256`", "gpt_12_blocks_blocks", "gpt_12_blocks_none"),
        ("GPT-2 124M, 64, 16 and 4 sequences of 1024 tokens in bf16, nothing recomputed: peak on a GPU as rehearsed on a machine without "
         "one (not measured on a GPU)",
         f"{rehearsed(False)}; with the residual stream in bf16 {rehearsed(True)}; with graphs 0.5 GB more than without", "gpt2_rehearsed"),
        ("a training step of ResNet-50, U-Net, VGG-16 and BERT-base, f32: steps in a time beside PyTorch 2.15 eager",
         ", ".join(f"{faster(Comparison(model).kept, Comparison(model).eager):.2f}" for model in ("resnet50", "unet", "vgg16", "bert")) +
         " times as many", *(compared[model] for model in ("resnet50", "unet", "vgg16", "bert"))),
        ("a training step's peak relative to PyTorch's, nothing recomputed and with `recompute_cheap`; inputs are in the "
         "[table of models](models.md#memory-and-speed)", "; ".join(f"{title}: {of_torch(model)}" for model, title in MODELS.items()),
         *compared.values()),
        ("U-Net, base width 64, four images of 1400 x 2100 pixels, AdamW: peak as rehearsed for an RTX 2080 Ti of 10.76 GiB (not measured "
         "on a GPU); one real step on a processor took what was predicted, to the byte",
         f"{unet['peak_bytes_predicted'] / 1e9:.2f} GB in f32 with `--recompute cheap`; plans reserve {planned['f32']} in f32 and "
         f"{planned['f16']} in f16", "unet_large_images"),
        ("`train_images --model small` on 9,000 of MNIST's images, 1,000 others to validate, mean of three seeds",
         f"{seeds['images']['mean_val_accuracy']:.1%} in {seconds['images']:.0f} s", "images_seeds"),
        ("`train_segmentation` by its defaults, mean IoU over 100 clouds that it has not seen, mean of three seeds",
         f"{seeds['segmentation']['mean_mean_iou']:.1%} in {seconds['segmentation']:.0f} s", "segmentation_seeds"),
        ("`train_detection` by its defaults, Mask R-CNN with a ResNet-18, box AP50 over 100 images of drawn shapes that it has not seen, mean "
         "of three seeds", f"{seeds['detection']['mean_ap50']:.1%} in {seconds['detection']:.0f} s", "detection_seeds"),
        ("`train_text` by its defaults over the whole validation split of tiny Shakespeare, one seed: an LSTM's loss, a GRU's, hidden "
         "characters that a BERT guesses",
         f"{seeds['lstm']['mean_val_loss']:.2f} in {seconds['lstm']:.0f} s, {seeds['gru']['mean_val_loss']:.2f} in {seconds['gru']:.0f} s, "
         f"{seeds['bert']['mean_val_accuracy']:.1%} in {seconds['bert']:.0f} s", "lstm_seeds", "gru_seeds", "bert_seeds"),
        ("allocator on the simulated GPU, seven recorded traces: reserved beyond live bytes, at most", f"{traces - 1:.1%}", "allocator_traces"),
        ("allocate and free on a hit, median and 99th percentile, with 100,000 live blocks",
         f"4 KiB: {calls('hit_calls/live:100000/history:0')}; 6 MiB: {calls('hit_large_calls/live:100000/history:0')}", "allocator_calls"),
        ("two threads on two streams of one allocator, calls per second relative to one thread",
         f"{gpu:.2f} times on the simulated GPU, {host:.2f} on the host", "allocator"),
        ("`train_gpt` with `--memory-history`, tokens/s relative to a run without, median of 13 pairs",
         f"{2 - result('history_cost')['median_ratio']:.1%}: no measurable cost", "history_cost"),
        ("`train_gpt` on a machine whose two processors 20 and more others want: tokens/s of two threads relative to one, median of 3",
         f"{threads['now']:.2f} times; with OpenMP's threads, as it was before, {threads['before']:.2f} times", "busy_machine"),
        ("an op on a tiny tensor: recorded and dropped, backward",
         f"{ops['RecordAndDrop']:.0f} ns, {ops['Backward']:.0f} ns", "tape"),
        ("`train_images --model mlp --batch 100 --epochs 30 --warmup 20` on 9,000 of MNIST's images, 1,000 others to validate",
         f"{result('mnist')['val_accuracy']:.1%}", "mnist"),
    ]
    return table(["what", "measured", "result file"],
                 [[what, figure, ", ".join(f"[{file}.json](../bench/results/{file}.json)" for file in files)] for what, figure, *files in rows])


def arrangements():
    """docs/several_processes.md's: what each process takes."""
    rows = result("processes_memory")["rows"]
    whole = rows[0]["peak_bytes_predicted"]
    return table(["processes", "`--shard`", "peak of a process", "less than one process", "of it optimizer state"],
                 [[f"{row['processes']}", row["shard"], megabytes(row["peak_bytes_predicted"]), megabytes(max(0, whole - row["peak_bytes_predicted"])),
                   megabytes(row["optimizer_state_bytes"])] for row in rows])


PAGES = {"README.md": {"terminal": terminal, "cards": cards}, "docs/results.md": {"peaks": peaks, "results": results},
         "docs/several_processes.md": {"arrangements": arrangements},
         "docs/models.md": {"memory and speed": memory_and_speed, "what fits": fits, "techniques": techniques,
                           "large images": large_images, "fronts": fronts}}


PICTURES = {"docs/time.svg": lambda: time_picture.draw(Comparison("resnet50"), "ResNet-50, 8 images of 128 x 128, f32, on two CPU cores"),
            "docs/speed.svg": lambda: speed_picture.draw(Comparison("gpt")),
            "docs/plans.svg": lambda: plan_picture.draw(result("plan_speed")["gpt_12_blocks"])}


def remade():
    """Each page and picture as the files have it."""
    for name, tables in PAGES.items():
        page = (ROOT / name).read_text(encoding="utf-8")
        for mark, make in tables.items():
            page = between_marks(page, f"{mark}: figures of bench/tables.py", make(), name)
        yield name, page
    for name, draw in PICTURES.items():
        yield name, draw()


def main():
    differ = []
    for name, made in remade():
        path = ROOT / name
        if path.exists() and path.read_text(encoding="utf-8") == made:
            continue
        differ.append(name)
        if "--write" in sys.argv:
            path.write_text(made, encoding="utf-8")
    if differ and "--write" not in sys.argv:
        sys.exit(f"bench/tables.py: {', '.join(differ)} differ from bench/results; bench/tables.py --write remakes them")


if __name__ == "__main__":
    main()
