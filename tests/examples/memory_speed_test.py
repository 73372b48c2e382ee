"""memory_speed: what each technique takes is what was predicted, the bits are keeping all's, and a dry run says the same."""
import importlib.util
import itertools
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import unittest
import unittest.mock

from program import ProgramCase

SMALL = ("--model", "mlp", "--layers", "2")


class MemorySpeed(ProgramCase):
    program = "memory_speed"
    flags = ("--model", "lstm", "--effective-batch", "4", "--block", "24", "--classes", "40", "--threads", "1", "--steps", "2",
             "--rounds", "1", "--budgets", "3")

    def test_measures_what_was_predicted(self):
        page = self.path("comparison.html")
        found = self.figures("--html", page)
        rows = {(row["technique"], row["name"]): row for row in found["rows"]}
        self.assertEqual(len(rows), len(found["rows"]), "each is another")
        self.assertEqual({row["technique"] for row in found["rows"]},
                         {"baseline", "gradient checkpointing", "gradient accumulation", "smaller batch", "mixed precision",
                          "optimizer", "chunked loss", "in-place activation", "plan"})
        for key, row in rows.items():
            with self.subTest(row=key):
                self.assertIsNone(row["refused"])
                for what in ("allocated", "reserved"):
                    self.assertEqual(row[f"peak_bytes_{what}"], row[f"peak_bytes_{what}_predicted"])
                self.assertEqual(sum(row["bytes"].values()), row["peak_bytes_allocated"])
                self.assertTrue(row["same_bits"])
                self.assertGreater(row["step_seconds"], 0)
                self.assertEqual(row["batch"] * row["accumulate"] / row["step_seconds"], row["samples_per_second"])
                if row["budget_bytes"]:
                    self.assertLessEqual(row["peak_bytes_reserved"], row["budget_bytes"])
        kept = rows["baseline", "keep all"]
        self.assertAlmostEqual(rows["chunked loss", "whole logits"]["loss"], kept["loss"], delta=1e-4)
        self.assertEqual((kept["batch"], kept["accumulate"], kept["dtype"], kept["replayed_ops"]), (4, 1, "f32", 0))
        self.assertEqual(rows["gradient checkpointing", "layers"]["loss"], kept["loss"])
        parts = rows["gradient accumulation", "4 x 1"]
        self.assertEqual((parts["batch"], parts["accumulate"]), (1, 4))
        half = rows["mixed precision", "bf16"]
        self.assertEqual(half["dtype"], "bf16")
        self.assertNotEqual(half["loss"], kept["loss"])
        self.assertAlmostEqual(half["loss"], kept["loss"], delta=2.0 ** -8 * 24 * kept["loss"])  # 24 positions, one after another
        self.assertLess(rows["optimizer", "sgd"]["bytes"]["optimizer state"], kept["bytes"]["optimizer state"])
        plans = [row for row in found["rows"] if row["budget_bytes"]]
        self.assertGreaterEqual(len(plans), 2)
        self.assertEqual({row["recompute"] for row in plans}, {"plan"})
        with open(page, encoding="utf-8") as stream:
            self.assertIn('"gradient accumulation"', stream.read())

        dry = self.figures("--device", "dry", "--techniques", "baseline,checkpointing")
        for row in dry["rows"]:
            self.assertIsNone(row["peak_bytes_reserved"])
            measured = rows[row["technique"], row["name"]]
            self.assertEqual(row["peak_bytes_reserved_predicted"], measured["peak_bytes_reserved"])
            self.assertEqual(row["replayed_ops"], measured["replayed_ops"])
        self.assertEqual(rows["gradient checkpointing", "cheap"]["replayed_ops"], 1)

    def test_every_round_is_announced_and_kept(self):
        for rounds in (3, 4):
            text = self.succeeds(*SMALL, "--techniques", "baseline", "--rounds", str(rounds), "--json", self.path("rounds.json"))
            self.assertEqual([line for line in text.split("\n") if line.startswith("round")],
                             [f"round {i + 1} of {rounds}: baseline, keep all" for i in range(rounds)])
            with open(self.path("rounds.json"), encoding="utf-8") as stream:
                row, = json.load(stream)["rows"]
            self.assertEqual(len(row["step_seconds_runs"]), rounds)
            self.assertAlmostEqual(row["step_seconds"], statistics.median(row["step_seconds_runs"]), delta=1e-12)

    def test_trainings_take_turns(self):
        text = self.succeeds(*SMALL, "--techniques", "baseline,checkpointing", "--rounds", "2")
        self.assertEqual([line for line in text.split("\n") if line.startswith("round")],
                         [f"round {i} of 2: {row}" for i in (1, 2) for row in ("baseline, keep all", "gradient checkpointing, cheap")])
        self.assertRegex(text, r"(?m) reserved +step +samples/s +recomputed +largest +bits$")
        self.assertEqual(re.findall(r"(?m)^(?:baseline|gradient checkpointing) .* (same .*)$", text), ["same as without recomputing"] * 2)

    def test_whole_logits_take_more_than_chunks(self):
        chunks, whole = (row["peak_bytes_reserved_predicted"] for row in self.figures(
            "--device", "dry", "--effective-batch", "64", "--classes", "40000", "--techniques", "baseline,chunked_loss")["rows"])
        self.assertGreater(whole, chunks)

    def test_shares_out_every_sample_and_budgets_from_the_least_to_keeping_all(self):
        found = self.figures("--device", "dry", "--effective-batch", "12")["rows"]
        divided = [(row["accumulate"], row["batch"]) for row in found if row["technique"] == "gradient accumulation"]
        self.assertEqual(divided, [(2, 6), (4, 3)])
        self.assertEqual([row["name"] for row in found if row["technique"] == "smaller batch"], ["batch 6", "batch 3", "batch 1"])
        kept = found[0]["peak_bytes_reserved_predicted"]
        budgets = [row["budget_bytes"] for row in found if row["budget_bytes"]]
        self.assertEqual((budgets, budgets[-1]), (sorted(budgets), kept))
        self.assertLess(budgets[0], kept)

    def test_a_micro_batch_that_a_norm_refuses_is_a_row_that_says_why(self):
        rows = self.figures("--device", "dry", "--model", "resnet18", "--height", "32", "--width", "32", "--effective-batch", "4",
                            "--techniques", "accumulation")["rows"]
        self.assertEqual([(row["accumulate"], row["batch"]) for row in rows], [(2, 2), (4, 1)])
        self.assertIsNone(rows[0]["refused"])
        self.assertIn("one value", rows[1]["refused"])

    def test_draws_the_memory_of_all_to_one_scale(self):
        page = self.path("history.html")
        rows = self.figures(*SMALL, "--techniques", "baseline,checkpointing", "--memory-history", page)["rows"]
        content = pathlib.Path(page).read_text(encoding="utf-8")
        for row in rows:
            self.assertIn(f"{row['technique']}: {row['name']}", content)
            self.assertIn(str(row["peak_bytes_allocated"]), content)
        self.assertEqual(content.count('"rehearsed":true'), len(rows), "what is drawn was predicted")
        rehearsed = self.path("rehearsed.html")
        self.succeeds(*SMALL, "--techniques", "baseline,checkpointing", "--device", "dry", "--memory-history", rehearsed)
        self.assertEqual(pathlib.Path(rehearsed).stat().st_size > 0, True)

    def test_says_what_fits_and_plans_for_it(self):
        flags = ("--model", "unet", "--height", "512", "--width", "768", "--effective-batch", "4", "--device", "dry", "--gpu-memory", "24GB",
                 "--budgets", "2")
        rows = {(row["technique"], row["name"]): row for row in self.figures(*flags)["rows"]}
        self.assertTrue(rows["baseline", "keep all"]["fits"], "within what is usable of the GPU")
        micro_batch = rows["gradient accumulation", "4 x 1"]["peak_bytes_reserved_predicted"]
        within = min(row["peak_bytes_reserved_predicted"] for (_, name), row in rows.items()
                     if row["accumulate"] == 1 and row["dtype"] == "f32" and name not in ("batch 1", "batch 2"))
        self.assertLess(micro_batch, within)
        within = (micro_batch + within) // 2  # without micro-batches nothing fits
        found = self.figures(*flags, "--within", str(within))
        for row in found["rows"]:
            self.assertEqual(row["fits"], row["peak_bytes_reserved_predicted"] <= within, row)
        self.assertFalse(any(row["fits"] for row in found["rows"] if row["technique"] in ("baseline", "gradient checkpointing")))
        plan = next(row for row in found["rows"] if row["budget_bytes"] == within)
        self.assertTrue(plan["fits"])
        self.assertEqual(plan["batch"] * plan["accumulate"], 4)
        self.assertGreater(plan["accumulate"], 1)
        # Whole pages count.
        kept = rows["baseline", "keep all"]["peak_bytes_reserved_predicted"]
        row, = self.figures(*flags, "--techniques", "baseline", "--within", str(kept - 1))["rows"]
        self.assertLess(row["peak_bytes_allocated_predicted"], kept)
        self.assertFalse(row["fits"])
        # What fits without micro-batches is not divided.
        rows = self.figures(*flags, "--within", str(kept))["rows"]
        self.assertTrue(rows[0]["fits"])
        plan = next(row for row in rows if row["budget_bytes"] == kept)
        self.assertEqual((plan["batch"], plan["accumulate"]), (4, 1))

    def test_finds_the_largest_micro_batch(self):
        flags = ("--device", "dry", "--gpu-memory", "24GB", "--techniques", "baseline", "--effective-batch", "16")
        within = self.figures(*flags)["rows"][0]["peak_bytes_reserved_predicted"]
        found = self.figures("--device", "dry", "--gpu-memory", "24GB", "--within", str(within),
                             "--techniques", "baseline,checkpointing,accumulation,plan")
        self.assertEqual(found["within_bytes"], within)
        largest = {row["technique"]: row["largest_batch"] for row in found["rows"]}
        self.assertGreaterEqual(largest["plan"], largest["baseline"])
        self.assertEqual(largest["gradient accumulation"], largest["baseline"], "of a step of one")
        for batch, fits in ((largest["baseline"], True), (largest["baseline"] + 1, False)):
            row, = self.figures("--device", "dry", "--gpu-memory", "24GB", "--techniques", "baseline", "--effective-batch", str(batch))["rows"]
            self.assertEqual(row["peak_bytes_reserved_predicted"] <= within, fits, batch)

    def test_what_is_not_written_in_place_takes_more(self):
        found = self.figures("--model", "mlp", "--layers", "6", "--effective-batch", "4096", "--device", "dry", "--techniques",
                             "baseline,in_place")
        kept, apart = (row["peak_bytes_reserved_predicted"] for row in found["rows"])
        self.assertGreater(apart, kept)

    def test_predicts_larger_batches(self):
        found = self.figures("--device", "dry", "--techniques", "baseline")
        lines = {(row["machine"], row["recompute"]) for row in found["larger"]}
        self.assertEqual({recompute for _, recompute in lines}, {"none", "layers"})
        self.assertIn("H100", {machine for machine, _ in lines})
        self.assertEqual([row["batch"] for row in found["larger"]], [4 << i for i in range(7)] * len(lines))
        kept = found["rows"][0]
        self.assertEqual(found["larger"][0]["peak_bytes_reserved_predicted"], kept["peak_bytes_reserved_predicted"])
        self.assertEqual(found["larger"][0]["step_seconds_predicted"], kept["step_seconds_predicted"])

    def test_pytorch_that_is_missing_or_refuses(self):
        flags = [*SMALL, "--peers", "--techniques", "baseline,accumulation"]
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, {"PATH": f"{folder}:/usr/bin:/bin"}):
            python = pathlib.Path(folder, "python3")
            python.write_text(f"#!/bin/sh\nexec {sys.executable} -S -I \"$@\"\n", encoding="utf-8")  # without any package
            python.chmod(0o755)
            self.fails(1, flags, "pip install torch")
            # One that is there and can't be used.
            for package in ("torch", "torchvision"):
                pathlib.Path(folder, f"{package}.py").write_text("", encoding="utf-8")
            python.write_text(f"#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} -S \"$@\"\n", encoding="utf-8")
            found = self.figures(*flags)
            planned = {budgets: [row["name"] for row in self.figures(*SMALL, "--peers", "--techniques", "plan", "--budgets", budgets)["rows"]
                                 if row["framework"] == "pytorch"]
                       for budgets in ("1", "3")}
        self.assertEqual(planned, {"1": ["budget 1"], "3": ["budget 1", "budget 0.05", "budget 0.53"]})
        theirs = [row for row in found["rows"] if row["framework"] == "pytorch"]
        self.assertEqual([row["name"] for row in theirs], ["keep all", "2 x 2", "4 x 1"])
        self.assertEqual([(row["accumulate"], row["batch"]) for row in theirs], [(1, 4), (2, 2), (4, 1)])
        for row in theirs:
            self.assertIn("train.py: ", row["refused"])
            self.assertEqual((row["peak_bytes_reserved"], row["step_seconds"], row["bytes"]), (None, None, None))
        self.assertEqual([row["refused"] for row in found["rows"] if row["framework"] == "headroom"], [None] * 3)

    @unittest.skipUnless(all(map(importlib.util.find_spec, ("torch", "torchvision"))), "needs PyTorch and torchvision")
    def test_pytorch_in_turn(self):
        found = self.figures("--peers", "--techniques", "baseline,accumulation,mixed_precision")
        theirs = {row["name"]: row for row in found["rows"] if row["framework"] == "pytorch"}
        self.assertEqual(list(theirs), ["keep all", "2 x 2", "4 x 1", "bf16"])
        ours = next(row for row in found["rows"] if row["framework"] == "headroom")
        for row in theirs.values():
            self.assertIsNone(row["refused"])
            self.assertEqual(row["parameters"], ours["parameters"])
            self.assertGreater(row["peak_bytes_allocated"], 0)
            self.assertGreater(row["step_seconds"], 0)

    def test_predicts_for_a_gpu(self):
        found = self.figures("--device", "dry", "--gpu-memory", "2GB", "--dtype", "bf16")
        self.assertEqual(found["machine"]["threads"], 0)
        self.assertIn("graphs", {row["technique"].removeprefix("CUDA ") for row in found["rows"]})
        for row in found["rows"]:
            self.assertIsNone(row["step_seconds"])
            self.assertGreater(row["samples_per_second"], 0)

    def test_refuses_what_it_can_not_do(self):
        self.fails(1, [*SMALL, "--techniques", "tf32,graphs"], "mlp has nothing that tf32 or graphs would change")
        self.fails(2, ["--techniques", "magic"], "--techniques")
        for flags in (), ("--device", "cpu"):
            self.fails(2, ["--gpu-memory", "8GB", *flags], "--gpu-memory")
        self.fails(1, ["--device", "dry", "--gpu-memory", "8GB", "--within", "8GB"], "use at most --within 7369392128")
        self.fails(2, ["--model", "gpt17"], "--model")
        self.fails(2, ["--effective-batch", "0"], "--effective-batch")
        self.fails(2, ["--device", "dry", "--peers"], "--peers")
        self.fails(1, ["--json", "/there/is/none.json"], "--json")
        for first, second in itertools.combinations(("--html", "--json", "--memory-history"), 2):
            self.fails(1, [first, self.path("a"), second, self.path("a")], first, second)


if __name__ == "__main__":
    unittest.main()
