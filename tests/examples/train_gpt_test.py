"""train_gpt as a whole: what it computes, what it predicts, how it stops and goes on."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

from program import ADVICE, SOURCE, ProgramCase, rest_of, words

KEYS = {"val_loss", "train_loss", "tokens_per_second", "loading_share", "seconds", "peak_bytes_allocated", "peak_bytes_reserved",
        "used", "peak_bytes_predicted", "peak_bytes_reserved_predicted", "resident_bytes", "parameters", "steps",
        "state_sha256", "batch", "accumulate", "step_seconds", "replayed_ops", "step_seconds_predicted", "replayed_ops_predicted",
        "costs"}
OF_PLANS = {"budget_bytes", "fits", "floor_bytes", "keep_all_bytes", "planner_seconds", "plans_simulated", "plans_rehearsed",
            "program_sha256", "choice"}
KEYS |= OF_PLANS


class TrainGpt(ProgramCase):
    program = "train_gpt"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = cls.write("text.txt", words(1000) + "é\n")
        cls.flags = ("--data", text, "--layers", "2", "--heads", "2", "--width", "32", "--block", "16", "--batch", "4",
                     "--warmup", "3", "--threads", "2")

    def test_json_holds_every_figure_and_the_loss_falls(self):
        figures = self.figures("--steps", 60, "--lr", "0.01")
        self.assertEqual(set(figures), KEYS)
        self.assertEqual({figures[name] for name in OF_PLANS | {"used"}}, {None})
        self.assertEqual(figures["steps"], 60)
        self.assertLess(figures["val_loss"], 2.5)  # log(17) = 2.8 at first
        self.assertLess(figures["train_loss"], 2.7)
        self.assertGreater(figures["tokens_per_second"], 0)
        self.assertGreater(figures["loading_share"], 0)
        self.assertLess(figures["loading_share"], 1)
        self.assertEqual(figures["parameters"], 17 * 32 + 16 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 2 * 32)
        self.assertGreaterEqual(figures["resident_bytes"], 3 * 4 * figures["parameters"])
        self.assertRegex(figures["state_sha256"], "^[0-9a-f]{64}$")

    def test_the_seed_decides(self):
        first = self.figures("--steps", 20, "--dropout", 0.1)
        again = self.figures("--steps", 20, "--dropout", 0.1, "--seed", 1337)
        other = self.figures("--steps", 20, "--dropout", 0.1, "--seed", 2)
        self.assertEqual(again["state_sha256"], first["state_sha256"])
        self.assertEqual(again["val_loss"], first["val_loss"])
        self.assertNotEqual(other["state_sha256"], first["state_sha256"])

    def test_recomputing_changes_no_bit(self):
        flags = ("--steps", 20, "--dropout", 0.1)
        kept = self.figures(*flags, "--recompute", "none")
        for each in ([], ["--recompute", "blocks"], ["--recompute", "mlp"], ["--recompute", "cheap"]):
            figures = self.figures(*flags, *each)
            self.assertEqual(figures["state_sha256"], kept["state_sha256"], each)
            self.assertEqual(figures["val_loss"], kept["val_loss"], each)
            self.assertLessEqual(figures["peak_bytes_allocated"], kept["peak_bytes_allocated"], each)
        self.assertLess(self.figures(*flags, "--recompute", "blocks")["peak_bytes_allocated"], kept["peak_bytes_allocated"])

    def test_predicted_peaks_are_the_measured_ones(self):
        for flags in ([], ["--dtype", "bf16"], ["--dtype", "f16"], ["--dtype", "bf16", "--half-residual"],
                      ["--recompute", "blocks"], ["--accumulate", 8],
                      ["--sample", 40], ["--bytes"], ["--recompute", "cheap"], ["--recompute", "none"], ["--threads", 1],
                      ["--dtype", "f16", "--accumulate", 3, "--recompute", "mlp"],
                      ["--recompute", "blocks", "--dtype", "bf16", "--accumulate", 3, "--dropout", 0.1, "--sample", 20]):
            with self.subTest(flags=flags):
                self.expect_predicted(self.figures("--steps", 4, *flags))
        self.expect_predicted(self.figures("--steps", 1))
        self.expect_predicted(self.figures("--steps", 1, "--accumulate", 2))

    def test_accumulating_eight_takes_what_two_take(self):
        for flags in ([], ["--recompute", "none"], ["--recompute", "blocks"], ["--dtype", "bf16"]):
            one = self.figures("--steps", 4, *flags)
            two = self.figures("--steps", 4, *flags, "--accumulate", 2)
            eight = self.figures("--steps", 4, *flags, "--accumulate", 8)
            for figure in ("peak_bytes_allocated", "peak_bytes_reserved"):
                self.assertEqual(eight[figure], two[figure], flags)
            self.assertLess(one["peak_bytes_allocated"], two["peak_bytes_allocated"], flags)

    def test_a_dry_device_predicts_and_does_nothing_else(self):
        real = self.figures("--steps", 4, "--sample", 40)
        dry = self.figures("--steps", 4, "--sample", 40, "--device", "dry")
        self.assertEqual(set(dry), KEYS)
        for figure in ("peak_bytes_predicted", "peak_bytes_reserved_predicted", "resident_bytes", "parameters"):
            self.assertEqual(dry[figure], real[figure])
        for figure in ("val_loss", "peak_bytes_allocated", "state_sha256"):
            self.assertIsNone(dry[figure])
        self.assertNotIn("step ", self.succeeds("--device", "dry", "--steps", 1_000_000))

    def test_a_gpu_is_rehearsed_without_one(self):
        figures = self.figures("--steps", 4, "--device", "dry", "--gpu-memory", 10**9)
        self.assertEqual(figures["peak_bytes_reserved_predicted"] % (2 << 20), 0)  # pages of 2 MiB
        self.assertGreater(figures["peak_bytes_predicted"], figures["resident_bytes"])

    def test_graphs_are_rehearsed(self):
        flags = ("--steps", 4, "--device", "dry", "--gpu-memory", 10**9)
        without, graphs = self.figures(*flags), self.figures(*flags, "--graphs")
        self.assertEqual(set(graphs) - KEYS, {"graphs"})
        self.assertGreater(graphs["peak_bytes_reserved_predicted"], without["peak_bytes_reserved_predicted"])
        between = graphs["peak_bytes_reserved_predicted"] - (2 << 20)
        line = self.fails(3, (*flags, "--graphs", "--memory-limit", between), " for graphs); the whole program needs ")
        advice = ADVICE.search(line)
        self.assertIsNotNone(advice["plain"], line)
        taken = self.figures(*flags, *advice["flags"].split())
        self.assertEqual(taken["peak_bytes_reserved_predicted"], int(advice["reserved"]))

    def test_scratch_of_a_rehearsed_gpu_is_what_was_allowed(self):
        flags = ("--device", "dry", "--gpu-memory", 10**11, "--dtype", "bf16", "--block", 1024, "--width", 128,
                 "--batch", 32, "--bytes")
        usual = self.figures(*flags)
        self.assertEqual(set(usual), KEYS)
        less = self.figures(*flags, "--scratch-budget", 10**7)
        any_order = self.figures(*flags, "--nondeterministic")
        for figures in (less, any_order):
            self.assertLess(figures["peak_bytes_predicted"], usual["peak_bytes_predicted"])
        self.assertEqual(set(less) - KEYS, {"scratch_budget"})
        self.assertEqual((less["scratch_budget"], any_order["deterministic"]), (10**7, False))

    def test_scratch_that_is_free_anyway_is_found_by_rehearsals(self):
        flags = ("--device", "dry", "--gpu-memory", 10**11, "--dtype", "bf16", "--block", 1024, "--width", 128,
                 "--layers", 8, "--batch", 32, "--bytes", "--scratch-budget", "8MiB")
        usual, fitted = self.figures(*flags), self.figures(*flags, "--fit-scratch")
        self.assertGreater(fitted["scratch_budget"], usual["scratch_budget"])
        self.assertEqual(fitted["peak_bytes_predicted"], usual["peak_bytes_predicted"])
        self.assertGreater(self.figures(*flags[:-1], 1 << 30)["peak_bytes_predicted"],
                           usual["peak_bytes_predicted"])
        self.fails(2, ["--fit-scratch"], "--fit-scratch is for --device cuda")

    def test_a_processor_computes_in_one_way(self):
        file = self.path("tuning.txt")
        plain = self.figures("--steps", 3)
        told = self.figures("--steps", 3, "--tf32", "--tune", file, "--nondeterministic", "--scratch-budget", 0)
        for figure in ("state_sha256", "peak_bytes_allocated", "peak_bytes_reserved"):
            self.assertEqual(told[figure], plain[figure])
        self.assertEqual((told["tf32"], told["tune"]), (True, True))
        self.assertFalse(os.path.exists(file))
        self.fails(1, ["--tune", self.path("missing/tuning.txt")], "--tune", "no folder")
        self.fails(2, ["--scratch-budget", -1], "--scratch-budget")
        self.fails(2, ["--libraries"], "--libraries is for --device cuda")
        self.fails(2, ["--graphs"], "--graphs is for --device cuda, or dry with --gpu or --gpu-memory")
        self.fails(2, ["--graphs", "--device", "dry"], "--graphs is for --device cuda, or dry with --gpu or --gpu-memory")

    def test_what_was_found_by_tuning_is_kept(self):
        file = self.path("tuning_of_gpu.txt")
        flags = ("--layers", 1, "--width", 16, "--block", 8, "--steps", 3, "--stop-after", 2, "--device", "cuda",
                 "--tune", file)
        if (run := self.run_program(*flags)).returncode != 0:
            self.skipTest(run.stderr.strip())
        figures = self.figures(*flags)
        self.assertEqual(figures["peak_bytes_allocated"], figures["peak_bytes_predicted"])
        with open(file, encoding="utf-8") as stream:
            self.assertTrue(stream.readline().startswith("headroom matmul choices"))
        self.fails(1, [*flags[:-1], self.write("damaged.txt", "no choices")], "damaged.txt is damaged in line 1")

    def test_trains_on_a_gpu_in_the_memory_that_was_predicted(self):
        flags = ("--layers", 1, "--width", 16, "--block", 8, "--steps", 3, "--stop-after", 2, "--device", "cuda")
        run = self.run_program(*flags)
        if run.returncode != 0:
            self.assertRegex(run.stderr, "^train_gpt: cuda: .*\n$")
            self.skipTest(run.stderr.strip())
        for dtype in ("f32", "bf16"):
            figures = self.figures(*flags, "--dtype", dtype)
            self.assertRegex(self.succeeds(*flags, "--dtype", dtype, "--libraries"), "\nproducts: .*\nattention: .*\n")
            self.assertEqual(figures["peak_bytes_allocated"], figures["peak_bytes_predicted"])
            self.assertEqual(figures["peak_bytes_reserved"], figures["peak_bytes_reserved_predicted"])

    def test_a_budget_of_the_predicted_bytes_suffices(self):
        flags = ("--width", 64, "--steps", 2)
        free = self.figures(*flags, "--batch", 64)
        reserved = free["peak_bytes_reserved"]
        figures = self.figures(*flags, "--batch", 64, "--memory-limit", reserved)
        self.assertEqual(figures["state_sha256"], free["state_sha256"])
        for limit in (reserved - 1, reserved // 2):
            line = self.fails(3, (*flags, "--batch", 64, "--memory-limit", limit), "out of memory")
            taken = self.figures(*flags, "--batch", 64, *ADVICE.search(line)["flags"].split())
            self.expect_predicted(taken)
            self.assertLessEqual(taken["peak_bytes_reserved"], limit)

    def test_a_budget_that_nothing_fits_into_says_so(self):
        for device in ("cpu", "dry"):
            self.fails(3, ["--width", 512, "--memory-limit", "2MiB", "--device", device], "out of memory", "smaller model")

    def test_the_last_tenth_validates(self):
        text = self.write("split.txt", "abcd" * 450 + "zyxw" * 50)
        figures = self.figures("--data", text, "--steps", 60, "--lr", 0.02, "--warmup", 0)
        self.assertLess(figures["train_loss"], 1)
        self.assertGreater(figures["val_loss"], 4)  # of letters that the training split lacks

    def test_the_learning_rate_in_the_log_is_the_one_that_is_applied(self):
        self.expect_logged_rates_are_applied("--dropout", 0.1)

    def test_validations_change_no_bit_of_a_training(self):
        self.expect_validations_change_nothing("--steps", 4, "--dropout", 0.1, "--accumulate", 2)

    def test_validations_see_no_dropout_and_the_whole_split(self):
        self.expect_validations_alike("--dropout", 0.5)
        self.expect_seen_in_training_alone(ways=[("--dropout", share) for share in (0, 0.1, 0.5)])
        self.expect_validations_by_any_batch(batches=(4, 1, 7, 100))

    def test_a_stopped_and_resumed_training_is_the_uninterrupted_one(self):
        for flags in (["--dropout", 0.1, "--accumulate", 2], ["--dtype", "f16", "--recompute", "blocks"]):
            whole = self.figures("--steps", 12, *flags)
            file = self.path("stopped.safetensors")
            stopped = self.figures("--steps", 12, *flags, "--stop-after", 5, "--save", file)
            self.assertEqual(stopped["steps"], 5)
            self.assertIsNone(stopped["val_loss"])
            self.figures("--steps", 12, *flags, "--resume", file, "--stop-after", 3, "--save", file)
            resumed = self.figures("--steps", 12, *flags, "--resume", file)
            self.assertEqual(resumed["steps"], 12)
            self.assertEqual(resumed["state_sha256"], whole["state_sha256"], flags)
            self.assertEqual(resumed["val_loss"], whole["val_loss"], flags)
            self.expect_predicted(resumed)

    def test_limits_have_units(self):
        peak = self.figures("--steps", 2)["peak_bytes_reserved"]
        for limit in (f"{peak}B", f"{peak / 1000}kB", f"{peak / 1024} KiB"):
            self.expect_predicted(self.figures("--steps", 2, "--memory-limit", limit))
        self.fails(1, ["--steps", 2, "--memory-limit", f"{(peak - 1) / 1024}KiB"], f"{peak - 1} bytes are less than a page")
        gpu = ("--steps", 2, "--device", "dry", "--gpu-memory")
        self.assertEqual(self.figures(*gpu, "1GB")["peak_bytes_reserved_predicted"],
                         self.figures(*gpu, 10**9)["peak_bytes_reserved_predicted"])
        printed = self.succeeds("--steps", 2)
        allocated = self.figures("--steps", 2)["peak_bytes_allocated"]
        for line in (r"predicted peak [\d.]+ kB \((\d+) bytes\), of it", r"peak memory [\d.]+ kB \((\d+) bytes\), predicted"):
            self.assertEqual(int(re.search(line, printed)[1]), allocated)

    def test_the_guide_names_flags_that_exist(self):
        with open(os.path.join(SOURCE, "docs", "guide.md"), encoding="utf-8") as file:
            section = file.read().split("\n## The programs\n")[1].split("\n## ")[0]
        folder = os.path.dirname(self.command()[0])
        programs = sorted(set(re.findall(r"\btrain_[a-z]+", section)))
        self.assertEqual(len(programs), 6)
        options = "".join(subprocess.run([os.path.join(folder, name), "--help"], capture_output=True, text=True,
                                         check=True).stdout for name in programs)
        flags = set(re.findall(r"(?<![a-z])--[a-z][a-z-]*", section)) - {"--help"}
        self.assertGreater(len(flags), 15)
        for flag in flags:
            self.assertRegex(options, rf"(?m)^  {flag} ", flag)

    def test_the_version(self):
        self.assertRegex(self.succeeds("--version"), r"^train_gpt \d+\.\d+\.\d+\n$")

    def test_the_progress_line_fits_the_terminal(self):
        for columns in (None, 80, 40, 200):
            terminal, inside = pty.openpty()
            if columns:
                fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            with subprocess.Popen(self.command("--steps", 300, "--lr", "1e-30"), stdout=inside, stderr=inside) as process:
                os.close(inside)
                output = rest_of(terminal)
            self.assertEqual(process.returncode, 0, output)
            drawn = re.findall(r"\r\x1b\[K([^\r]*)", output.decode())
            self.assertTrue(drawn)
            self.assertLess(max(map(len, drawn)), columns or 80)
            self.assertIn("step 300/300  loss ", drawn[-1])
            self.assertEqual(drawn[-1].startswith("[====="), columns != 40)

    def test_sampling_prints_text_and_changes_no_parameter(self):
        printed = self.succeeds("--steps", 2, "--sample", 50)
        self.assertRegex(printed, "(?s)validation loss .*\n\n.{50}\n\npeak memory")
        self.assertEqual(self.succeeds("--steps", 2, "--sample", 50).split("validation loss")[1],
                         printed.split("validation loss")[1])


if __name__ == "__main__":
    unittest.main()
