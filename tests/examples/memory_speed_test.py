"""memory_speed: what each technique takes is what was predicted, the bits are keeping all's, and a dry run says the same."""
import unittest

from program import ProgramCase


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
                          "optimizer", "plan"})
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
        self.assertEqual((kept["batch"], kept["accumulate"], kept["dtype"], kept["replayed_ops"]), (4, 1, "f32", 0))
        self.assertEqual(rows["gradient checkpointing", "layers"]["loss"], kept["loss"])
        parts = rows["gradient accumulation", "4 x 1"]
        self.assertEqual((parts["batch"], parts["accumulate"]), (1, 4))
        self.assertEqual(rows["mixed precision", "bf16"]["dtype"], "bf16")
        self.assertLess(rows["optimizer", "sgd"]["bytes"]["optimizer state"], kept["bytes"]["optimizer state"])
        plans = [row for row in found["rows"] if row["budget_bytes"]]
        self.assertGreaterEqual(len(plans), 2)
        with open(page, encoding="utf-8") as stream:
            self.assertIn('"gradient accumulation"', stream.read())

        dry = self.figures("--device", "dry", "--techniques", "baseline,checkpointing")
        for row in dry["rows"]:
            self.assertIsNone(row["peak_bytes_reserved"])
            self.assertEqual(row["peak_bytes_reserved_predicted"], rows[row["technique"], row["name"]]["peak_bytes_reserved"])

    def test_predicts_for_a_gpu(self):
        found = self.figures("--device", "dry", "--gpu-memory", "24GB", "--dtype", "bf16")
        self.assertEqual(found["machine"]["threads"], 0)
        self.assertIn("graphs", {row["technique"].removeprefix("CUDA ") for row in found["rows"]})
        for row in found["rows"]:
            self.assertIsNone(row["step_seconds"])
            self.assertGreater(row["samples_per_second"], 0)

    def test_refuses_what_it_can_not_do(self):
        self.fails(2, ["--techniques", "magic"], "--techniques")
        self.fails(2, ["--gpu-memory", "8GB"], "--gpu-memory")
        self.fails(2, ["--model", "gpt17"], "--model")
        self.fails(2, ["--effective-batch", "0"], "--effective-batch")
        self.fails(1, ["--json", "/there/is/none.json"], "--json")
        self.fails(1, ["--html", self.path("a"), "--json", self.path("a")], "--json")


if __name__ == "__main__":
    unittest.main()
