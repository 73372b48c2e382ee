"""what_fits: its rows agree with each other, with the memories that they are for, and with another program's rehearsal."""
import json
import os
import subprocess
import unittest

from program import ProgramCase

MODEL_STEP = os.path.join(os.environ.get("HEADROOM_EMULATED_GPU_PROGRAMS", ""), "model_step")
GPUS = [round(1e9 * gigabytes) for gigabytes in (8, 11, 12, 16, 24, 40, 80, 141)]
WHOLE = os.environ.get("HEADROOM_WHOLE_BUDGETS")  # .ci/nightly: models by their own sizes
SIZES, MEMORIES = ((), GPUS) if WHOLE else (("--batch", 2), [10**9, 3 * 10**9, 24 * 10**9])
RESERVE = 600 << 20
FIELDS = ["model", "gpu", "gpu_memory", "usable_bytes", "method", "batch", "accumulate", "fits", "peak_bytes_reserved_predicted", "step_seconds_predicted",
          "floor_bytes"]
WAYS = {"bert": ["none", "cheap", "layers"], "gpt": ["none", "cheap", "mlp", "blocks"],
        "gpt2": ["none", "cheap", "mlp", "blocks"], "mlp": ["none", "cheap"], "gru": ["none", "cheap", "layers"],
        "lstm": ["none", "cheap", "layers"], "maskrcnn": ["none", "cheap", "blocks"], "vgg16": ["none", "cheap"],
        "vgg16_bn": ["none", "cheap"], "unet": ["none", "cheap", "blocks"], "unet_bilinear": ["none", "cheap", "blocks"],
        **{f"resnet{layers}": ["none", "cheap", "blocks"] for layers in (18, 34, 50, 101, 152)}}


class WhatFits(ProgramCase):
    program = "what_fits"

    def rows(self, *flags):
        return self.figures(*flags)["rows"]

    def by_method(self, *flags):
        """The rows of one model, by their methods."""
        methods = {}
        for row in self.rows(*flags):
            methods.setdefault(row["method"], []).append(row)
        return methods

    def rows_of_all(self):
        return self.rows("--model", "all", *SIZES, "--gpu-memory", ",".join(map(str, MEMORIES)))

    def test_every_model_has_a_row_for_each_method_and_gpu(self):
        rows = self.rows_of_all()
        self.assertEqual([(row["model"], row["method"], row["gpu_memory"]) for row in rows],
                         [(model, method, gpu) for model in sorted(WAYS) for method in [*WAYS[model], "plan"] for gpu in MEMORIES])
        self.assertEqual([row["gpu_memory"] for row in self.rows("--model", "gru", *SIZES, "--methods", "none")], GPUS)
        self.assertEqual({row["fits"] for row in rows}, {True, False})
        for row in rows:
            self.assertEqual(list(row), FIELDS)
            self.assertEqual(row["usable_bytes"], (row["gpu_memory"] - RESERVE) // (2 << 20) * (2 << 20))
            self.assertEqual((row["gpu"], row["fits"]), (None, row["floor_bytes"] <= row["usable_bytes"]))
            if row["fits"]:
                self.assertGreater(row["step_seconds_predicted"], 0)
                self.assertLessEqual(row["peak_bytes_reserved_predicted"], row["usable_bytes"])
                self.assertGreaterEqual(row["peak_bytes_reserved_predicted"], row["floor_bytes"])
            else:
                self.assertEqual((row["peak_bytes_reserved_predicted"], row["step_seconds_predicted"]), (None, None))

    def test_no_way_by_hand_takes_less_than_a_plan_or_is_faster(self):
        for model in sorted(WAYS.keys() - (() if WHOLE else {"resnet101", "resnet152"})):  # deeper resnet50s
            floors = {row["method"]: row["floor_bytes"] for row in self.rows_of_all() if row["model"] == model}
            memories = [floors[way] for way in WAYS[model]]
            methods = self.by_method("--model", model, *SIZES, "--gpu-memory", ",".join(map(str, memories)), "--gpu-reserve", 0)
            plans = methods.pop("plan")
            self.assertEqual(list(methods), WAYS[model])
            self.assertTrue(all(plan["fits"] for plan in plans))
            for row in [row for rows in methods.values() for row in rows if row["fits"]]:
                plan = plans[memories.index(row["gpu_memory"])]
                self.assertEqual((row["peak_bytes_reserved_predicted"], row["accumulate"]), (row["floor_bytes"], 1))
                self.assertLessEqual(plan["floor_bytes"], row["floor_bytes"])
                self.assertLessEqual(plan["step_seconds_predicted"], row["step_seconds_predicted"] * (1 + 1e-9), row)

    def test_whole_pages_have_to_fit(self):
        for flags in (("--model", "gpt", "--batch", 2), ("--model", "unet", "--batch", 1, "--height", 96, "--width", 64)):
            memories = {row["method"]: row["floor_bytes"] for row in self.rows(*flags, "--gpu-memory", "1TB")}
            for method, memory in memories.items():
                rows = self.rows(*flags, "--methods", method, "--gpu-memory", f"{memory - 1},{memory}", "--gpu-reserve", 0)
                self.assertEqual([row["fits"] for row in rows], [False, True], (flags, method))
                rows = self.rows(*flags, "--methods", method, "--gpu-memory", f"{memory + RESERVE - 1},{memory + RESERVE}")
                self.assertEqual([row["fits"] for row in rows], [False, True], (flags, method))

    def test_a_larger_gpu_fits_as_much_and_is_as_fast(self):
        rows = self.by_method("--model", "gpt", "--batch", "4", "--dtype", "bf16", "--gpu-memory",
                              ",".join(f"{megabytes}MB" for megabytes in range(180, 300, 10)), "--gpu-reserve", "0")
        for method, of_gpus in rows.items():
            self.assertEqual([row["fits"] for row in of_gpus], sorted(row["fits"] for row in of_gpus))
            self.assertEqual({row["fits"] for row in of_gpus}, {True, False}, method)
            seconds = [row["step_seconds_predicted"] for row in of_gpus if row["fits"]]
            self.assertEqual(seconds, sorted(seconds, reverse=True))
        plans = [row for row in rows["plan"] if row["fits"]]
        self.assertEqual({row["batch"] * row["accumulate"] for row in plans}, {4})
        self.assertEqual((plans[-1]["batch"], plans[0]["batch"] < 4), (4, True))

    @unittest.skipUnless(os.path.exists(MODEL_STEP), "needs model_step of an emulated build")
    def test_peaks_are_those_that_another_program_rehearses(self):
        for model, way, sizes in (("gpt2", "blocks", ("--block", 64)), ("resnet18", "cheap", ("--height", 64, "--width", 48)),
                                  ("lstm", "layers", ("--block", 32))):
            flags = ("--model", model, "--batch", 4, "--classes", 10, "--dtype", "bf16")
            row, = self.rows(*flags, *sizes, "--optimizer", "sgd", "--methods", way, "--gpu-memory", "24GB")
            theirs = ["--height" if word == "--block" else word for word in sizes]
            run = subprocess.run([MODEL_STEP, "--device", "dry", "--recompute", way, *map(str, (*flags, *theirs))], capture_output=True,
                                 text=True, check=True)
            self.assertEqual(row["peak_bytes_reserved_predicted"], json.loads(run.stdout)["predicted_reserved"], model)

    def test_micro_batches_are_divided_where_they_may_be(self):
        def floor(model, *flags):
            row, = self.rows("--model", model, "--batch", 4, "--methods", "plan", "--gpu-memory", "24GB", *flags)
            return row["floor_bytes"]

        self.assertLess(floor("gpt"), floor("gpt", "--keep-batch"))
        self.assertEqual(floor("resnet18"), floor("resnet18", "--keep-batch"), "its norms take the statistics of a micro-batch")
        self.assertLess(floor("resnet18", "--split-batch"), floor("resnet18"))

    def test_micro_batches_that_a_norm_refuses_are_left_out(self):
        small = ("--model", "resnet18", "--height", 32, "--width", 32, "--batch", 4, "--methods", "plan", "--gpu-memory", "224MB",
                 "--gpu-reserve", 0)
        split, = self.rows(*small, "--split-batch")
        self.assertTrue(split["fits"])
        row, = self.rows(*small, "--largest", "batch")
        self.assertGreater(row["largest"], 4)

    def test_checkpoints_over_time_are_a_choice(self):
        methods = self.by_method("--model", "lstm", "--keep-batch", "--gpu-memory", "24GB")
        floors = {method: row["floor_bytes"] for method, (row,) in methods.items()}
        self.assertLess(floors["layers"], floors["cheap"])
        self.assertLessEqual(floors["plan"], floors["layers"])

    def test_the_largest_size_is_the_last_that_fits(self):
        for model, methods, size, memories, more in (
                ("resnet18", "cheap,plan", "batch", ("180MB", "230MB"), ("--batch", 8, "--height", 64, "--width", 64)),
                ("gpt2", "mlp", "block", ("1GB", "2200MB"), ("--batch", 1)),
                ("unet", "none,plan", "height", ("640MB", "680MB"), ("--batch", 1, "--height", 64, "--width", 32))):
            flags = ("--model", model, "--methods", methods, "--gpu-memory", ",".join(memories), "--gpu-reserve", 0, *more)
            rows = self.rows(*flags, "--largest", size)
            self.assertEqual(len(rows), 2 * len(methods.split(",")))
            for small, row in zip(rows[::2], rows[1::2], strict=True):
                self.assertEqual((small["fits"], small["largest"]), (False, None))
                largest = row["largest"]
                with self.subTest(model=model, method=row["method"]):
                    asked = dict(zip(more[::2], more[1::2]))
                    for value, fits in ((largest, True), (largest + 1, False)):
                        width = {"--width": value // 2} if size == "height" else {}
                        words = [word for pair in {**asked, f"--{size}": value, **width}.items() for word in pair]
                        kept = ("--keep-batch",) if size == "batch" else ()
                        alone, = self.rows("--model", model, "--methods", row["method"], "--gpu-memory", memories[1], "--gpu-reserve", 0,
                                           *words, *kept)
                        self.assertEqual(alone["fits"], fits)
        self.assertNotIn("largest", self.rows("--model", "gru", *SIZES, "--methods", "none")[0])

    def test_cards_by_their_names_are_as_fast_as_they_are(self):
        cards = ("RTX 3060", "RTX 2080 Ti", "RTX 3090", "H100", "H200")  # two of some capabilities
        rows = self.rows("--model", "resnet50", "--batch", 16, "--dtype", "f16", "--methods", "none", "--gpu", ",".join(cards))
        self.assertEqual([row["gpu"] for row in rows], list(cards))
        self.assertEqual([row["floor_bytes"] for row in rows], [rows[0]["floor_bytes"]] * len(cards))
        seconds = [row["step_seconds_predicted"] for row in rows]
        self.assertEqual(seconds, sorted(set(seconds), reverse=True))
        rows = self.rows("--model", "gru", "--methods", "none", "--gpu", "T4", "--gpu-memory", "24GB", "--gpu-reserve", 0)
        self.assertEqual([row["usable_bytes"] for row in rows], [row["gpu_memory"] // (2 << 20) * (2 << 20) for row in rows])
        text = self.succeeds("--model", "resnet50", "--batch", 16, "--methods", "none", "--gpu", "RTX 2080 Ti", "--gpu-memory", "24GB")
        self.assertRegex(text, r"(?m)^ +least +24.0 GB +RTX 2080 Ti$")
        self.fails(1, ("--model", "resnet50", "--batch", 16, "--dtype", "bf16", "--gpu", "T4"), "use f16 (--dtype f16)")

    def test_prints_a_table(self):
        text = self.succeeds("--model", "lstm", "--batch", 32, "--gpu-memory", "780MB,1GB", "--largest", "batch", "--methods", "none,plan")
        self.assertRegex(text, r"(?m)^lstm: 32 sequences of 128 tokens in f32, adamw$")
        self.assertRegex(text, r"(?m)^ +least +780.0 MB +1.0 GB$")
        self.assertRegex(text, r"(?m)^  none +\d+\.\d MB +- +\d+\.\d ms$")
        self.assertRegex(text, r"(?m)^  plan +\d+\.\d MB +\d+\.\d ms / \d +\d+\.\d ms$")
        self.assertRegex(text, r"(?m)^lstm: largest batch$")
        self.assertRegex(text, r"(?m)^  plan +\d+\.\d MB +\d+ +\d+$")

    def test_wrong_usage(self):
        for flags, part in (((), "--model"), (("--model", "gpt3"), "gpt3"), (("--model", "gpt2", "--batch", 0), "--batch"),
                            (("--model", "gpt2", "--gpu-memory", 8), "write 8GB"), (("--model", "gpt2", "--gpu-memory", "0"), "write 8GB"),
                            (("--model", "gpt2", "--gpu-memory", "999kB"), "write 8GB"),
                            (("--model", "gpt2", "--gpu-memory", "8XB"), "8XB"), (("--model", "gpt2", "--methods", "all"), "--methods"),
                            (("--model", "bert", "--methods", "mlp"), "bert has none, cheap, layers, plan"),
                            (("--model", "gpt2,resnet18", "--largest", "block"), "--largest block is not for resnet18"),
                            (("--model", "gpt2", "--largest", "height"), "--largest height is not for gpt2"),
                            (("--model", "gpt2", "--largest", "width"), "--largest"),
                            (("--model", "gpt2", "--keep-batch", "--split-batch"), "--keep-batch"),
                            (("--model", "gpt2", "--device", "dry"), "there is no --device")):
            with self.subTest(flags=flags):
                self.fails(2, flags, part)
        self.fails(1, ("--model", "gpt2", "--json", self.path("missing/rows.json")), "--json")


if __name__ == "__main__":
    unittest.main()
