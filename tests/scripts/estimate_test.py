"""The estimate of a GPT-2 step: every kernel of the program is counted, and the products are those of the mathematics."""
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
PROGRAM = os.environ.get("HEADROOM_ESTIMATE", "")

LAYERS, WIDTH, HEADS, TIME, BATCH, CLASSES = 3, 128, 2, 128, 4, 512
TOKENS = BATCH * TIME
SHAPE = ["--layers", LAYERS, "--width", WIDTH, "--heads", HEADS, "--time", TIME, "--batch", BATCH, "--vocabulary", CLASSES]


class Arithmetic(unittest.TestCase):
    RATES = {**estimate.RATES, "memory": 1e9, "product bf16": 1e12, "launch": 1e3}
    STEP = {"batch": 2, "accumulate": 3, "time": 10}

    def test_a_kernel_takes_as_long_as_its_bytes_or_its_operations(self):
        kernels = [{"kernel": "copy [3] f32", "rate": "", "launches": 2, "bytes": 4e6, "operations": 0},
                   {"kernel": "product [1 x 1 x 1]", "rate": "product bf16", "launches": 1, "bytes": 1e6, "operations": 9e9},
                   {"kernel": "product [2 x 1 x 1]", "rate": "product bf16", "launches": 1, "bytes": 2e6, "operations": 1e9},
                   {"kernel": "upload", "rate": "host", "launches": 1, "bytes": 1e12, "operations": 0}]
        result = estimate.estimate(kernels, self.STEP, self.RATES)
        self.assertEqual([row["milliseconds"] for row in result["kernels"]], [10, 6, 3, 0])
        self.assertEqual(result["milliseconds_of_families"], {"product": 13, "copy": 6, "upload": 0})
        self.assertEqual((result["milliseconds_per_step"], result["tokens_per_second"]), (19, 3000))
        self.assertEqual(result["largest"], "product [1 x 1 x 1]")


@unittest.skipUnless(os.path.exists(PROGRAM), "gpt2_estimate was not built")
class Step(unittest.TestCase):
    def ledger(self, *flags, warmup=1):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            command = [PROGRAM, *map(str, ["--warmup", warmup, "--steps", 1, *SHAPE, *flags])]
            run = subprocess.run(command, env={**os.environ, "HEADROOM_LEDGER": file.name}, capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)
            step = json.loads(run.stdout)
            self.assertEqual(step["peak_allocated"], step["predicted_allocated"])
            self.assertEqual(step["peak_reserved"], step["predicted_reserved"])
            self.assertEqual(step["host_waits"], 0)
            return json.loads(pathlib.Path(file.name).read_text(encoding="utf-8"))

    @staticmethod
    def operations(kernels, rate):
        return sum(kernel["operations"] for kernel in kernels if kernel["rate"].startswith(rate))

    def test_products_and_attention_are_those_of_the_mathematics(self):
        kernels = self.ledger("--dtype", "bf16")
        blocks = 3 * 2 * 12 * WIDTH * WIDTH * LAYERS * TOKENS  # forward, and two products of each backward
        head = self.operations(kernels, "product bf16") - blocks
        self.assertEqual(head, 3 * 2 * CLASSES * WIDTH * TOKENS)  # logits once, as forward keeps their gradients
        pairs = LAYERS * BATCH * HEADS * TIME * (TIME + 1) // 2
        self.assertEqual(self.operations(kernels, "attention gradient"), 10 * WIDTH // HEADS * pairs)
        self.assertEqual(self.operations(kernels, "attention") - self.operations(kernels, "attention gradient"),
                         4 * WIDTH // HEADS * pairs)

    def test_a_graph_is_counted_each_time_that_it_is_launched(self):
        graphs, plain = self.ledger("--graphs", warmup=2), self.ledger()  # the second step is captured
        inputs = [kernel for kernel in graphs if kernel["kernel"] == f"copy [{BATCH}, {TIME}] i32 i32"]
        self.assertEqual([(kernel["launches"], kernel["bytes"]) for kernel in inputs], [(2, 2 * 2 * 4 * TOKENS)])
        self.assertEqual([kernel for kernel in graphs if kernel not in inputs], plain)

    def test_every_configuration_is_counted(self):
        plain = self.ledger()
        for flags in (["--accumulate", 2], ["--recompute", "blocks"], ["--recompute", "cheap"], ["--dtype", "f16"],
                      ["--tune"], ["--fit-scratch"]):
            with self.subTest(flags):
                kernels = self.ledger(*flags)
                self.assertGreaterEqual(sum(kernel["bytes"] for kernel in kernels), sum(kernel["bytes"] for kernel in plain))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + ["-v"])
