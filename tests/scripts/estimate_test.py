"""The estimates of steps: every kernel of the programs is counted, as often as its source launches it; the operations are those
of the mathematics; every rate counts; and the figures of docs/estimate.md are those of today's code."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "estimate.py")
SPEC = importlib.util.spec_from_file_location("estimate", SCRIPT)
estimate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(estimate)
estimate.PROGRAMS = pathlib.Path(os.environ.get("HEADROOM_ESTIMATE_PROGRAMS", "missing"))


def built(*names):
    return unittest.skipUnless(all((estimate.PROGRAMS / name).exists() for name in names), f"{', '.join(names)}: not built")


LAYERS, WIDTH, HEADS, TIME, BATCH, CLASSES = 3, 128, 2, 128, 4, 512
TOKENS = BATCH * TIME
SHAPE = ["--layers", LAYERS, "--width", WIDTH, "--heads", HEADS, "--time", TIME, "--batch", BATCH, "--vocabulary", CLASSES]


class Arithmetic(unittest.TestCase):
    RATES = {**estimate.RATES, "elementwise": 1e9, "norm of rows": 0.5e9, "operands": 1e9, "product bf16": 1e12, "between kernels": 1e-3,
             "least of a kernel": 2e-3, "least of a library's": 5e-3, "host, a kernel": 3e-3, "host, a product": 7e-3}
    KERNELS = [{"kernel": "copy [3] f32", "rate": "", "launches": 2, "queued": 2, "bytes": 5e6, "operations": 0, "results": 0},
               {"kernel": "product [1 x 1 x 1]", "rate": "product bf16", "launches": 1, "queued": 1, "bytes": 1e6, "operations": 9e9,
                "results": 5e5},
               {"kernel": "product [2 x 1 x 1]", "rate": "product bf16", "launches": 1, "queued": 1, "bytes": 2e6, "operations": 1e9,
                "results": 0},
               {"kernel": "layer_norm [3] f32", "rate": "", "launches": 0, "queued": 0, "bytes": 1e6, "operations": 0, "results": 0},
               {"kernel": "fill [] f32", "rate": "", "launches": 3, "queued": 0, "bytes": 4, "operations": 0, "results": 0},
               {"kernel": "graph", "rate": "", "launches": 0, "queued": 1, "bytes": 0, "operations": 0, "results": 0},
               {"kernel": "upload", "rate": "host", "launches": 1, "queued": 1, "bytes": 1e12, "operations": 0, "results": 0}]

    def test_a_kernel_takes_as_long_as_its_bytes_its_operations_or_its_launches(self):
        result = estimate.estimate(self.KERNELS, self.RATES)
        self.assertEqual({row["kernel"]: row["milliseconds"] for row in result["kernels"]}, {
            "product [1 x 1 x 1]": 9 + 1, "fill [] f32": 3 * (2 + 1), "copy [3] f32": 5 + 2, "product [2 x 1 x 1]": 5 + 1,
            "layer_norm [3] f32": 2, "graph": 0, "upload": 0})
        self.assertEqual(result["milliseconds_of_families"],
                         {"product": 16, "fill": 9, "copy": 7, "layer_norm": 2, "graph": 0, "upload": 0})
        self.assertEqual((result["gpu_milliseconds"], result["largest"]), (34, "product [1 x 1 x 1]"))

    def test_a_step_takes_what_the_gpu_needs_or_what_the_host_does(self):
        result = estimate.estimate(self.KERNELS, self.RATES)
        self.assertEqual((result["host_milliseconds"], result["milliseconds_per_step"]), (2 * 7 + 4 * 3, 34))
        result = estimate.estimate(self.KERNELS, {**self.RATES, "host, a kernel": 10e-3})
        self.assertEqual((result["gpu_milliseconds"], result["host_milliseconds"], result["milliseconds_per_step"]), (34, 54, 54))

    def test_every_rate_counts(self):
        """Kernels of each kind whose bytes, operations or launches take long. Each rate is one of some kernel's."""
        kinds = [*({"kernel": name, "rate": ""} for name in ("copy", "layer_norm", "layer_norm gradient", "channel_norm")),
                 *({"kernel": name, "rate": name} for name, rate in estimate.ASSUMED.items() if rate.unit == "operations/s")]
        work = [dict(zip(("launches", "queued", "bytes", "operations"), numbers))
                for numbers in ((0, 0, 1e12, 0), (0, 0, 0, 1e15), (1000, 0, 0, 0), (0, 1000, 0, 0))]
        kernels = [{**kind, **numbers} for kind in kinds for numbers in work]

        def times(rates):
            return [(estimate.gpu_seconds(kernel, rates), estimate.host_seconds(kernel, rates)) for kernel in kernels]

        for name, value in estimate.RATES.items():
            self.assertNotEqual(times({**estimate.RATES, name: 2 * value}), times(estimate.RATES), name)

    def test_kinds_are_of_kernels_that_there_are(self):
        source = (estimate.BENCH / "estimate" / "counting_kernels.cpp").read_text(encoding="utf-8")
        for name in estimate.RATE_OF_BYTES:
            self.assertIn(f'"{name}"', source)

    def test_passes_are_bytes_over_those_of_results(self):
        optimizer = {"kernel": "sgd [9] f32", "rate": "", "launches": 1, "bytes": 1e9, "operations": 0, "results": 0}
        result = estimate.passes([*self.KERNELS, optimizer])
        self.assertEqual(result["passes"], 18)
        self.assertEqual(result["passes_of_kinds"], {"products": 6, "norms": 2, "others": 10})
        self.assertEqual(result["passes_of_families"], {"copy": 10, "product": 6, "layer_norm": 2})


@built("gpt2_estimate")
class Step(unittest.TestCase):
    def ledger(self, *flags, warmup=1):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            command = [estimate.PROGRAMS / "gpt2_estimate", *map(str, ["--warmup", warmup, "--steps", 1, *SHAPE, *flags])]
            run = subprocess.run(command, env={**os.environ, "HEADROOM_LEDGER": file.name}, capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)
            step = json.loads(run.stdout)
            self.assertEqual(step["peak_allocated"], step["predicted_allocated"])
            self.assertEqual(step["peak_reserved"], step["predicted_reserved"])
            self.assertEqual(step["host_waits"], 0)
            return json.loads(pathlib.Path(file.name).read_text(encoding="utf-8"))

    def test_products_and_attention_are_those_of_the_mathematics(self):
        kernels = self.ledger("--dtype", "bf16")
        blocks = 3 * 2 * 12 * WIDTH * WIDTH * LAYERS * TOKENS  # forward, and two products of each backward
        head = operations(kernels, "product bf16") - blocks
        self.assertEqual(head, 3 * 2 * CLASSES * WIDTH * TOKENS)  # logits once, as forward keeps their gradients
        pairs = LAYERS * BATCH * HEADS * TIME * (TIME + 1) // 2
        self.assertEqual(operations(kernels, "attention gradient"), 10 * WIDTH // HEADS * pairs)
        self.assertEqual(operations(kernels, "attention") - operations(kernels, "attention gradient"), 4 * WIDTH // HEADS * pairs)

    def test_a_graph_is_counted_each_time_that_it_is_launched(self):
        graphs, plain = self.ledger("--graphs", warmup=2), self.ledger()  # the second step is captured
        inputs = [kernel for kernel in graphs if kernel["kernel"] == f"copy [{BATCH}, {TIME}] i32 i32"]
        self.assertEqual([(kernel["launches"], kernel["bytes"]) for kernel in inputs], [(2, 2 * 2 * 4 * TOKENS)])
        queued = {kernel["kernel"]: kernel["queued"] for kernel in graphs if kernel["queued"] > 0}
        self.assertEqual(queued, {inputs[0]["kernel"]: 2, "graph": 2, "upload": 3})  # a graph of the batch, and one of the update
        self.assertEqual([{**kernel, "queued": 0} for kernel in graphs if kernel not in inputs and kernel["kernel"] != "graph"],
                         [{**kernel, "queued": 0} for kernel in plain])

    def test_the_host_queues_each_launch_and_the_librarys_gradient_of_attention_by_one_call(self):
        for kernel in self.ledger("--dtype", "bf16"):
            calls = kernel["launches"] // (3 if kernel["kernel"].startswith("attention gradient") else 1)
            self.assertEqual(kernel["queued"], calls, kernel["kernel"])

    def test_the_time_that_the_host_needs_is_not_that_of_the_gpu(self):
        step = behind_a_queue("gpt2_estimate", 300, map(str, ["--warmup", 1, "--steps", 9, *SHAPE]))
        self.assertGreater(step["milliseconds_per_step"], 0.2 * 100)
        self.assertLess(step["host_milliseconds_per_step"], step["milliseconds_per_step"] / 2)

    def test_every_configuration_is_counted(self):
        plain = self.ledger()
        for flags in (["--accumulate", 2], ["--recompute", "blocks"], ["--recompute", "cheap"], ["--dtype", "f16"],
                      ["--tune"], ["--fit-scratch"]):
            with self.subTest(flags):
                kernels = self.ledger(*flags)
                self.assertGreaterEqual(sum(kernel["bytes"] for kernel in kernels), sum(kernel["bytes"] for kernel in plain))


def behind_a_queue(program, depth, flags):
    """What a program prints if each launch takes 200 us, and the host may be ahead by `depth` launches: more than a step has, but
    less than a few."""
    run = subprocess.run([estimate.PROGRAMS / program, *flags], env={**os.environ, "HEADROOM_QUEUE": f"{depth},200"}, capture_output=True,
                         text=True, check=True)
    return json.loads(run.stdout)


def operations(kernels, rate, names=""):
    return sum(kernel["operations"] for kernel in kernels if kernel["rate"].startswith(rate) and kernel["kernel"].startswith(names))


def resnet50_convolutions():
    """Multiply-adds of an image of 224 x 224: of the first convolution, and of all others."""
    channels, side, others = 64, 56, 0
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            inner = side // 2 if width > 64 and block == 0 else side
            others += side**2 * channels * width + inner**2 * (9 * width**2 + 4 * width**2)
            others += inner**2 * channels * 4 * width if block == 0 else 0
            channels, side = 4 * width, inner
    return 112**2 * 64 * 3 * 49, others


def vgg16_convolutions():
    """Of the first convolution, and of all others."""
    channels, side, all_of_them = 3, 224, []
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            all_of_them.append(side**2 * channels * width * 9)
            channels = width
        side //= 2
    return all_of_them[0], sum(all_of_them[1:])


@built("model_estimate")
class Models(unittest.TestCase):
    def kernels(self, model, *flags):
        kernels, step = estimate.counted(estimate.completed(list(flags), model), "model_estimate")
        self.assertEqual(step["peak_bytes"], step["predicted_bytes"])
        self.assertEqual(step["host_waits"], 0)
        return kernels

    def test_convolutions_are_those_of_the_mathematics(self):
        self.assertEqual(round(sum(resnet50_convolutions()) / 1e9, 2), 4.09)
        self.assertEqual(round(sum(vgg16_convolutions()) / 1e9, 2), 15.35)
        for model, (first, others), head in (("resnet50", resnet50_convolutions(), 2048 * 1000),
                                             ("vgg16", vgg16_convolutions(), 512 * 49 * 4096 + 4096 * 4096 + 4096 * 1000)):
            for dtype in ("bf16", "f32"):
                with self.subTest(model=model, dtype=dtype):
                    kernels = self.kernels(model, "--batch", "3", "--dtype", dtype)
                    self.assertEqual(operations(kernels, "convolution"), 3 * 2 * (3 * others + 2 * first))  # no gradient of images
                    self.assertEqual(operations(kernels, "product"), 3 * 2 * 3 * head)
                    self.assertEqual(operations(kernels, "own"), 0)

    def test_the_time_that_the_host_needs_is_not_that_of_the_gpu(self):
        step = behind_a_queue("model_estimate", 400, estimate.completed(["--batch", "2", "--warmup", "1", "--steps", "9"], "resnet18"))
        self.assertGreater(step["seconds"], 200e-6 * 200)
        self.assertLess(step["host_seconds"], step["seconds"] / 2)

    def test_up_convolutions_are_those_of_the_mathematics(self):
        forward = 9 * 64 * 3 + 9 * 64 * 64  # of U-Net, at each pixel of the whole image
        for depth in range(1, 5):
            width = 64 << depth
            forward += (9 * width * width // 2 + 9 * width * width) / 4**depth  # down
            forward += (9 * width * width // 2 + 9 * width * width // 4) / 4 ** (depth - 1)  # up: half of what is read was kept
            forward += width * width // 2 / 4 ** (depth - 1)  # 2 x 2, of stride 2
        forward += 64 * 4
        counted = operations(self.kernels("unet"), "convolution")
        self.assertEqual(counted, 8 * 512**2 * 2 * (3 * forward - 9 * 64 * 3))

    def test_products_of_recurrent_layers_are_those_of_the_mathematics(self):
        layer, head = 2 * 512 * 512, 1000 * 512  # for a gate; multiply-adds for each token
        tokens = 64 * 128
        self.assertEqual(operations(self.kernels("lstm"), "product"), 2 * tokens * (3 * 2 * 4 * layer + 3 * head))
        again = 2 * layer  # a GRU's candidates are computed again
        self.assertEqual(operations(self.kernels("gru"), "product"), 2 * tokens * (3 * 2 * 3 * layer + again + 3 * head))

    def test_ops_say_how_much_is_computed(self):
        """What planners go by: of a rehearsal's ops. Ops count the gradient of images, which nobody asks for, too; the project's own
        attention computes two of five products twice in backward."""
        for model in estimate.MODELS:
            for flags in ([], ["--dtype", "f32"], ["--recompute", "cheap"]):
                with self.subTest(model=model, flags=flags):
                    kernels = self.kernels(model, "--batch", "2", *flags)
                    counted = operations(kernels, "") - 2 / 7 * operations(kernels, "own", "own attention gradient")
                    dry = ["--device", "dry", *flags]
                    run = subprocess.run([estimate.PROGRAMS / "model_estimate", *estimate.completed(["--batch", "2", *dry], model)],
                                         capture_output=True, text=True, check=True)
                    said = json.loads(run.stdout)["operations"]
                    self.assertGreater(counted, 1e9)
                    images = model not in ("gpt2", "bert", "lstm", "gru")
                    self.assertGreaterEqual(said, counted * (1 - 1e-9))
                    self.assertLessEqual(said, counted * (1.03 if images else 1 + 1e-9))

    def test_what_is_recomputed_are_further_passes(self):
        plain, cheap = (estimate.passes(self.kernels("resnet50", "--recompute", words)) for words in ("none", "cheap"))
        self.assertGreater(cheap["passes_of_kinds"]["norms"], plain["passes_of_kinds"]["norms"])
        self.assertEqual(cheap["passes_of_kinds"]["products"], plain["passes_of_kinds"]["products"])

    def test_passes_of_norms_do_not_depend_on_the_batch(self):
        small, large = (estimate.passes(self.kernels("resnet50", "--batch", batch)) for batch in ("64", "256"))
        self.assertEqual(small["passes_of_kinds"]["norms"], large["passes_of_kinds"]["norms"])


@built("gpt2_launches", "model_launches")
class Launches(unittest.TestCase):
    """Beside the estimate, the same program with the kernels' own sources."""

    def compare(self, program, flags):
        numbers = []
        for kind in ("estimate", "launches"):
            kernels, _ = estimate.counted(flags, f"{program}_{kind}")
            numbers.append(sum(kernel["launches"] for kernel in kernels))
        self.assertGreater(numbers[0], 100)
        self.assertEqual(*numbers, "launches that are counted, and launches of the sources")

    def test_are_as_many_as_the_sources_of_the_kernels_have(self):
        for model in estimate.MODELS:
            for flags in ([], ["--dtype", "f32"], ["--recompute", "cheap"]):
                with self.subTest(model=model, flags=flags):
                    self.compare("model", estimate.completed(flags, model))
        for flags in ([], ["--dtype", "f32"], ["--graphs", "--dtype", "f16"], ["--accumulate", "3", "--recompute", "cheap"]):
            with self.subTest(flags=flags):
                self.compare("gpt2", estimate.completed(flags))


@built("gpt2_estimate", "model_estimate")
class Figures(unittest.TestCase):
    """Launches, passes and all else: who changes one sees it here, and remakes the tables by bench/estimate.py --write."""

    def test_are_those_of_the_code(self):
        for name, result in estimate.all_results(estimate.RATES).items():
            written = json.loads(estimate.RESULTS[name].read_text(encoding="utf-8"))
            for part, value in result.items():
                if part != "models":
                    self.assertEqual(written[part], value, f"{name}: {part}")
            self.assertEqual([row["flags"] for row in written.get("models", [])], [row["flags"] for row in result.get("models", [])])
            for old, new in zip(written.get("models", []), result.get("models", [])):
                with self.subTest(flags=new["flags"]):
                    self.assertEqual(old, new)


class Page(unittest.TestCase):
    RESULTS = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in estimate.RESULTS.items()}

    def test_has_the_figures_of_the_files(self):
        page = estimate.PAGE.read_text(encoding="utf-8")
        self.assertEqual(page, estimate.with_figures(page, self.RESULTS))

    def test_steps_take_what_a_second_reading_of_published_figures_expects(self):
        """Milliseconds, from those of whole models on A100 and H100 and of their kernels: not by these rates."""
        of_models = {tuple(row["flags"]): row["milliseconds_per_step"] for row in self.RESULTS["models"]["models"]}
        large = "--batch 1 --height 1400 --width 2100".split()
        for figure, (least, most) in ((self.RESULTS["gpt2"]["milliseconds_per_step"], (125, 152)),
                                      (of_models[tuple(estimate.completed([], "resnet50"))], (38, 50)),
                                      (of_models[tuple(estimate.completed(large, "unet"))], (38, 50)),
                                      (of_models[tuple(estimate.completed([], "lstm"))], (5.5, 8))):
            self.assertGreaterEqual(figure, least)
            self.assertLessEqual(figure, most)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + ["-v"])
