#!/usr/bin/env python3
"""The tables of README and docs that have figures of bench/results: remakes them from the files, or says which differ.

usage: bench/tables.py [--write]

A table stands between <!-- NAME: figures of bench/tables.py --> and <!-- end of figures -->, and is a function here.
docs/estimate.md's are those of bench/estimate.py.
"""
import json
import pathlib
import re
import statistics
import sys

from pages import between_marks

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"


def result(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def megabytes(count):
    return f"{count / 1e6:,.0f} MB"


def gigabytes(count):
    return f"{count / 1e9:.1f} GB"


def table(head, rows):
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


MODELS = {"gpt": "GPT, 12 x 256", "resnet18": "ResNet-18", "resnet34": "ResNet-34", "resnet50": "ResNet-50", "resnet101": "ResNet-101",
          "resnet152": "ResNet-152", "vgg16": "VGG-16", "vgg16_bn": "VGG-16 with batch norm", "unet": "U-Net, base width 64",
          "unet_bilinear": "the same, bilinear", "maskrcnn": "Mask R-CNN, ResNet-50 FPN", "bert": "BERT-base, hidden words",
          "gpt2": "GPT-2 124M", "lstm": "LSTM, 2 x 512", "gru": "GRU, 2 x 512"}


FRONTS = ("gpt", "resnet50", "unet", "lstm")  # of which all techniques are compared with PyTorch's


class Comparison:
    """Rows of memory_speed --peers."""

    def __init__(self, model):
        self.name = f"memory_speed_{model}"
        self.file = result(self.name)
        self.rows = [row for row in self.file["rows"] if row["refused"] is None]
        self.eager = self.row("pytorch", "baseline")
        self.kept = self.row("headroom", "baseline")

    def row(self, framework, technique):
        """The first one."""
        return next(row for row in self.rows if (row["framework"], row["technique"]) == (framework, technique))

    def smallest(self, framework):
        """Of those that do the same training: micro-batches, f32, the same optimizer."""
        batch = self.file["effective_batch"]
        same = [row for row in self.rows if row["framework"] == framework and row["dtype"] == "f32" and
                row["optimizer"] == self.kept["optimizer"] and row["batch"] * row["accumulate"] == batch]
        return min(same, key=memory_of)

    def uncovered(self):
        """PyTorch's points, and those of them for which there is no point of Headroom that is as small and as fast."""
        ours, theirs = ([row for row in self.rows if row["framework"] == framework] for framework in ("headroom", "pytorch"))
        covers = lambda a, b: memory_of(a) <= memory_of(b) and a["samples_per_second"] >= b["samples_per_second"]
        return theirs, [row for row in theirs if not any(covers(other, row) for other in ours)]


def memory_of(row):
    """Reserved; of PyTorch on a CPU, which reserves nothing, allocated."""
    return row["peak_bytes_reserved"] or row["peak_bytes_allocated"]


def faster(row, other):
    """How many times as fast, by the pairs of the rounds."""
    return statistics.median(b / a for a, b in zip(row["step_seconds_runs"], other["step_seconds_runs"]))


def inputs(file):
    """ "8 x 224 x 224" for images, "4 x 128 tokens" for text."""
    return re.sub(r" (images?|sequences?) of ", " x ", file["inputs"])


def peaks():
    """README's: what some models take, with PyTorch in turn."""
    rows = []
    for model in FRONTS:
        compared = Comparison(model)
        of = lambda row, compared=compared: f"{megabytes(memory_of(row))}, {faster(row, compared.eager):.2f}"
        rows.append([MODELS[model], inputs(compared.file), *(of(row) for row in (
            compared.eager, compared.smallest("pytorch"), compared.kept, compared.smallest("headroom"))),
            f"[{compared.name}.json](bench/results/{compared.name}.json)"])
    return table(["model", "input", "PyTorch eager", "PyTorch, the least", "Headroom, keeping all", "Headroom, the least", "result file"], rows)


def fronts():
    """docs/models.md's: points of PyTorch's that Headroom does not reach."""
    rows = []
    for model in FRONTS:
        compared = Comparison(model)
        theirs, uncovered = compared.uncovered()
        what = "; ".join(f"{row['technique']}: {row['name']}" for row in uncovered) or "none"
        rows.append([MODELS[model], f"{len(theirs)}", f"{len(uncovered)}", what, f"[{compared.name}.json](../bench/results/{compared.name}.json)"])
    return table(["model", "points of PyTorch", "not reached", "which", "result file"], rows)


def inputs_of(model, row):
    """ "8 x 224 x 224" for images, "4 x 128 tokens" for text."""
    sizes = row["size"].split()
    sizes = dict(zip(sizes[::2], sizes[1::2]))
    images = f"{sizes['--batch']} x {sizes['--height']}"
    return f"{images} tokens" if model in ("bert", "gpt2") else f"{images} x {sizes['--width']}"


def memory_and_speed():
    """docs/models.md's, of all models."""
    rows = []
    for model, row in result("models_torch").items():
        if model not in MODELS:
            continue
        ours, cheap, torch = (row["peak_bytes"][kind] for kind in ("headroom", "cheap", "torch"))
        speed = [f"{row[name]:.2f}" if name in row else "" for name in ("median_speed_ratio", "median_time_of_cheap")]
        rows.append((model, [inputs_of(model, row), *map(megabytes, (ours, cheap, torch)), f"{ours / torch:.2f}", f"{cheap / torch:.2f}", *speed]))
    for model in ("lstm", "gru"):
        row = result("recurrent_torch")[model]
        ours, cheap, torch = row["peak_bytes"], row["peak_bytes_with_checkpoints"], row["peak_bytes_torch"]
        rows.append((model, ["128 steps of 16", *map(megabytes, (ours, cheap, torch)), f"{ours / torch:.2f}", f"{cheap / torch:.2f}",
                             f"{row['median_speed_ratio']:.2f}", f"{row['median_time_of_checkpoints']:.2f}"]))
    rows.sort(key=lambda row: list(MODELS).index(row[0]))
    return table(["model", "input", "peak", "cheap", "PyTorch", "peak / PyTorch's", "cheap / PyTorch's", "speed", "time of cheap"],
                 [[MODELS[model], *cells] for model, cells in rows])


def fits():
    """As what_fits prints it."""
    file = result("what_fits")
    memories = list(dict.fromkeys(row["gpu_memory"] for row in file["rows"]))
    lines = ["A step's time, by rates that are assumed; -: does not fit; / 4: in 4 micro-batches"]
    for model, what in file["inputs"].items():
        lines += [f"{model}: {what}", f"{'least':>19}" + "".join(f"{gigabytes(memory):>14}" for memory in memories)]
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


def of_torch(models):
    """Peaks relative to PyTorch's, keeping all and by `recompute_cheap`."""
    file = result("models_torch")
    return [f"{file[model]['peak_ratio']:.2f} and {file[model]['peak_ratio_cheap']:.2f}" for model in models]


def rehearsed(half_residual):
    rows = [row for row in result("gpt2_rehearsed")["rows"] if row["dtype"] == "bf16" and not row["graphs"]]
    peaks_of = [f"{row['predicted_allocated'] / 1e9:.1f}" for row in rows if row["half_residual"] == half_residual]
    return f"{', '.join(peaks_of[:-1])} and {peaks_of[-1]} GB"


def speed(model):
    """Beside PyTorch's eager one, and the file."""
    compared = Comparison(model)
    return f"{faster(compared.kept, compared.eager):.2f} times as many", compared.name


def results():
    """docs/results.md's: what was measured, its figure, and the files."""
    small, models, seeds = result("gpt_small_seeds"), result("models_torch"), {
        name: result(f"{name}_seeds") for name in ("images", "segmentation", "detection", "lstm", "gru", "bert")}
    kept, blocks = result("gpt_12_blocks_none"), result("gpt_12_blocks_blocks")
    share = (blocks["peak_bytes_allocated"] - blocks["resident_bytes"]) / (kept["peak_bytes_allocated"] - kept["resident_bytes"])
    stream, recurrent, busy = result("residual_stream"), result("recurrent_torch"), result("busy_machine")["median"]
    traces = max(row[part]["ratio"] for row in result("allocator_traces")["rows"] for part in ("whole", "steady"))
    unet = next(row for row in result("unet_large_images")["rehearsed"] if row["recompute"] == "cheap")
    ratios = of_torch(["resnet18", "resnet50", "resnet152", "vgg16", "vgg16_bn", "unet", "unet_bilinear", "maskrcnn", "bert", "gpt2"])
    gpu, host = (benchmark("allocator", f"two_threads_for_one/{where}/live:1000/history:0")["ratio"] for where in ("gpu", "host"))
    threads = {when: busy[f"{when}, 2 threads, 0 busy processes"] / busy[f"{when}, 1 threads, 0 busy processes"] for when in ("now", "before")}
    seconds = {name: file["mean_wall_seconds"] for name, file in seeds.items()}
    ops = {name: 1e9 * benchmark("tape", f"{name}_median")["time_per_op"] for name in ("RecordAndDrop", "Backward")}
    assert kept["state_sha256"] == blocks["state_sha256"]
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
        ("a training step of ResNet-50 (8 x 224 x 224), U-Net (384 x 384), VGG-16 (4 x 224 x 224) and BERT-base (4 x 128), f32: speed "
         "beside PyTorch 2.15 eager",
         ", ".join(f"{models[model]['median_speed_ratio']:.2f}" for model in ("resnet50", "unet", "vgg16", "bert")) + " times", "models_torch"),
        ("a training step's peak relative to PyTorch's, nothing recomputed and with `recompute_cheap`: ResNet of 8 x 224 x 224, VGG-16 of "
         "4 x 224 x 224, U-Net of 384 x 384, Mask R-CNN with ResNet-50 FPN of 800 x 1216, BERT-base and GPT-2 of 4 x 128",
         "ResNet-18 {}, ResNet-50 {}, ResNet-152 {}; VGG-16 {}, with batch norm {}; U-Net {}, bilinear {}; Mask R-CNN {}; BERT {}; GPT-2 {}"
         .format(*ratios), "models_torch"),
        ("two layers of LSTM and of GRU (512 wide, 128 steps of 16): speed, and peak relative to PyTorch's",
         "{:.2f} and {:.2f} times; {:.2f} and {:.2f}".format(
             *(recurrent[model]["median_speed_ratio"] for model in ("lstm", "gru")),
             *(recurrent[model]["peak_bytes"] / recurrent[model]["peak_bytes_torch"] for model in ("lstm", "gru"))), "recurrent_torch"),
        ("U-Net, base width 64, 1400 x 2100 pixels, f32, AdamW, four images by accumulation: peak as rehearsed for a GPU of 10.76 GiB (not "
         "measured on a GPU); one real step on a processor took what was predicted, to the byte",
         f"{unet['peak_bytes_predicted'] / 1e9:.2f} GB with `--recompute cheap`", "unet_large_images"),
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


PAGES = {"README.md": {"peaks": peaks}, "docs/results.md": {"results": results},
         "docs/models.md": {"memory and speed": memory_and_speed, "what fits": fits, "techniques": techniques,
                           "large images": large_images, "fronts": fronts}}


def main():
    differ = []
    for name, tables in PAGES.items():
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        made = page
        for mark, make in tables.items():
            made = between_marks(made, f"{mark}: figures of bench/tables.py", make(), name)
        if made == page:
            continue
        differ.append(name)
        if "--write" in sys.argv:
            path.write_text(made, encoding="utf-8")
    if differ and "--write" not in sys.argv:
        sys.exit(f"bench/tables.py: {', '.join(differ)} differ from bench/results; bench/tables.py --write remakes them")


if __name__ == "__main__":
    main()
