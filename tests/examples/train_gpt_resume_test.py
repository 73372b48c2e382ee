"""train_gpt with checkpoints: what is saved meanwhile, which flags a resumed training has, and what it takes."""
import json
import os
import signal
import struct
import subprocess
import time
import unittest

from program import ProgramCase, words


class TrainGptResume(ProgramCase):
    program = "train_gpt"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = cls.write("text.txt", words(400))
        cls.flags = ("--threads", "1")
        cls.training = ("--data", cls.text, "--layers", 2, "--heads", 2, "--width", 32, "--block", 16, "--batch", 4,
                        "--warmup", 3, "--dropout", 0.1, "--steps", 12, "--lr", 0.01)
        cls.whole = cls.path("whole.safetensors")
        cls.stopped = cls.path("stopped.safetensors")
        for file, more in ((cls.whole, ()), (cls.stopped, ("--stop-after", 5))):
            run = cls.run_program(*cls.training, "--save", file, *more)
            assert run.returncode == 0, run.stderr

    def test_flags_are_those_of_the_checkpoint(self):
        self.assertEqual(self.figures("--resume", self.stopped)["state_sha256"],
                         self.figures("--resume", self.whole)["state_sha256"])
        self.assertIn(f"resuming {self.stopped} with its flags\n", self.succeeds("--resume", self.stopped))
        again = self.path("again.safetensors")
        self.succeeds("--resume", self.stopped, "--stop-after", 2, "--save", again)
        self.assertEqual(self.figures("--resume", again)["state_sha256"],
                         self.figures("--resume", self.whole)["state_sha256"])

    def test_flags_given_anew_count_and_are_named(self):
        printed = self.succeeds("--resume", self.stopped, "--lr", 0.02, "--steps", 8, "--warmup", 3)
        self.assertIn("with its flags; given again: --lr 0.02 (was 0.01), --steps 8 (was 12)\n", printed)
        self.assertNotIn("step 9", printed)
        self.assertIn("with its flags\n", self.succeeds("--resume", self.stopped, "--lr", "1e-2"))
        printed = self.succeeds("--resume", self.stopped, "--recompute", "blocks")
        self.assertIn("given again: --recompute blocks (was mlp)\n", printed)
        # What was given anew is what the next checkpoint holds.
        changed = self.path("changed.safetensors")
        self.succeeds("--resume", self.stopped, "--lr", 0.02, "--stop-after", 1, "--save", changed)
        self.assertIn("--lr 0.01 (was 0.02)", self.succeeds("--resume", changed, "--lr", 0.01))

    def test_what_decides_about_bits_on_a_gpu_is_stored(self):
        file = self.path("bits.safetensors")
        flags = ("--tf32", "--nondeterministic", "--scratch-budget", "64MiB")
        self.succeeds(*self.training, *flags, "--stop-after", 1, "--save", file)
        figures = self.figures("--resume", file)
        self.assertEqual((figures["tf32"], figures["deterministic"], figures["scratch_budget"]), (True, False, 64 << 20))
        self.assertNotIn("tf32", self.figures("--resume", self.stopped))
        printed = self.succeeds("--resume", file, "--scratch-budget", "32MiB")
        self.assertIn("given again: --scratch-budget", printed)

    def test_flags_of_the_run_are_not_stored(self):
        self.fails(1, ["--resume", self.stopped, "--memory-limit", "100kB"], "memory limit: 100000 ")
        self.expect_predicted(self.figures("--resume", self.stopped, "--memory-limit", "1GB"))
        # A training begun on a GPU with --libraries and --graphs, which a CPU refuses, goes on without them.
        begun = self.with_stored(self.stopped, lambda stored: stored | {"libraries": "true", "graphs": "true"})
        self.assertIn("with its flags\n", self.succeeds("--resume", begun))

    def test_flags_of_an_earlier_release_are_read_by_their_names_of_today(self):
        names = {"max-grad-norm": "clip", "ema-decay": "average"}
        file, flags = self.path("averaged.safetensors"), ("--ema-decay", 0.5, "--max-grad-norm", 0.25)
        self.succeeds(*self.training, *flags, "--stop-after", 5, "--save", file)
        old = self.with_stored(file, lambda stored: {names.get(name, name): value for name, value in stored.items()})
        self.assertEqual(self.figures("--resume", old)["state_sha256"], self.figures(*self.training, *flags)["state_sha256"])
        self.assertIn("given again: --max-grad-norm 0.5 (was 0.25)\n", self.succeeds("--resume", old, "--max-grad-norm", 0.5))

    def with_stored(self, checkpoint, change):
        """The name of a copy whose stored flags are changed."""
        with open(checkpoint, "rb") as file:
            contents = file.read()
        end = 8 + struct.unpack("<Q", contents[:8])[0]
        header = json.loads(contents[8:end])
        stored = change(json.loads(header["__metadata__"]["train_gpt.flags"]))
        header["__metadata__"]["train_gpt.flags"] = json.dumps(stored)
        text = json.dumps(header).encode()
        return self.write("changed_flags.safetensors", struct.pack("<Q", len(text)) + text + contents[end:])

    def test_what_cannot_be_changed_is_one_line(self):
        for flags, part in ((["--width", 64], "width 32, not 64"), (["--seed", 2], "seed 1337, not 2"),
                            (["--batch", 2], "batch size 4"), (["--bytes"], "vocabulary"), (["--block", 8], "block")):
            self.fails(1, ["--resume", self.stopped, *flags], "--resume", "stopped.safetensors", part)

    def test_a_checkpoint_of_another_program_or_none(self):
        self.fails(1, ["--resume", self.path("none")], "none", "No such file")
        self.fails(1, ["--resume", self.write("short", "x")], "short")
        self.fails(2, [], "--data is required")

    def test_predictions_hold_where_few_steps_are_left(self):
        for flags in (["--resume", self.whole], ["--resume", self.whole, "--sample", 20],
                      ["--resume", self.whole, "--steps", 0, "--sample", 20], ["--resume", self.whole, "--steps", 13],
                      ["--resume", self.whole, "--steps", 14], ["--resume", self.stopped, "--steps", 0],
                      [*self.training, "--steps", 0], [*self.training, "--steps", 0, "--sample", 20, "--save", self.path("x")]):
            with self.subTest(flags=flags):
                self.expect_predicted_ran(flags)

    def test_many_micro_batches_are_resumed(self):
        file = self.path("accumulated.safetensors")
        flags = self.last_given([*self.training, "--accumulate", 3])
        whole = self.figures(*flags)
        self.succeeds(*flags, "--stop-after", 5, "--save", file)
        resumed = self.figures("--resume", file)
        self.assertEqual(resumed["state_sha256"], whole["state_sha256"])
        self.expect_predicted(resumed)

    def test_a_planned_step_need_not_be_said_again(self):
        file = self.path("planned.safetensors")
        flags = self.last_given([*self.training, "--batch", 97])
        budget = self.figures(*flags, "--budget", "1GB")["floor_bytes"]
        planned = self.figures(*flags, "--budget", budget, "--stop-after", 5, "--save", file)
        self.assertEqual((planned["batch"], planned["accumulate"]), (1, 97))
        for way in ((), ("--recompute", "none")):  # by the plan in the file, or by hand
            rest = self.figures("--resume", file, *way)
            for name in ("batch", "accumulate"):
                self.assertEqual(rest[name], planned[name], (way, name))

    def expect_predicted_ran(self, flags):
        figures = self.figures(*self.last_given(flags))
        self.assertEqual(figures["peak_bytes_predicted"], figures["peak_bytes_allocated"])
        self.assertEqual(figures["peak_bytes_reserved_predicted"], figures["peak_bytes_reserved"])
        self.assertIsNotNone(figures["val_loss"])

    @staticmethod
    def last_given(flags):
        """Options take one value: of those given twice, the last."""
        pairs = dict(zip(flags[::2], flags[1::2]))
        return [word for pair in pairs.items() for word in pair]

    def test_samples_without_training(self):
        printed = self.succeeds("--resume", self.whole, "--steps", 0, "--sample", 30, "--temperature", 0)
        self.assertRegex(printed, "(?s)validation loss .*\n\n.{30}\n\npeak memory")
        self.assertNotIn("step 1/", printed)
        self.assertEqual(self.figures("--resume", self.whole, "--steps", 0)["steps"], 12)

    def test_validating_meanwhile_changes_nothing_and_is_predicted(self):
        plain = self.figures(*self.training)
        for flags in (["--validate-every", 1], ["--validate-every", 5], ["--validate-every", 6], ["--validate-every", 100],
                      ["--validate-every", 2, "--best", self.path("best.safetensors")],
                      ["--validate-every", 4, "--save-every", 3, "--save", self.path("every.safetensors")]):
            with self.subTest(flags=flags):
                figures = self.figures(*self.training, *flags)
                self.assertEqual(figures["state_sha256"], plain["state_sha256"])
                self.assertEqual(figures["val_loss"], plain["val_loss"])
                self.expect_predicted(figures)
        # Where validation takes more than a step.
        wide = [*self.training, "--batch", 1, "--accumulate", 2, "--recompute", "none", "--dtype", "bf16"]
        for every in (1, 3):
            self.expect_predicted(self.figures(*self.last_given(wide), "--validate-every", every))

    def validations(self, printed):
        lines = [line for line in printed.splitlines() if "validation loss" in line]
        return [(float(line.split("loss ")[1].split(",")[0]), "the best so far" in line) for line in lines]

    def test_patience_ends_it(self):
        worse = ("--lr", 1, "--min-lr", 1)  # after a step or two it gets worse
        printed = self.succeeds(*self.last_given([*self.training, *worse]), "--validate-every", 2, "--patience", 1)
        losses = [loss for loss, _ in self.validations(printed)]
        self.assertIn("1 validations in a row brought no lower loss", printed)
        self.assertIn(len(losses), range(2, 6), "as many as without patience, or none to compare")
        self.assertEqual([later < earlier for earlier, later in zip(losses, losses[1:])], [True] * (len(losses) - 2) + [False])

    def test_the_best_is_kept(self):
        best = self.path("kept.safetensors")
        worse = ("--lr", 1, "--min-lr", 1)  # after a step or two it gets worse
        printed = self.succeeds(*self.last_given([*self.training, *worse]), "--validate-every", 2, "--best", best, "--save",
                                self.path("last.safetensors"))
        losses = self.validations(printed)
        self.assertEqual(len(losses), 6)
        least = float("inf")
        for loss, said in losses:
            self.assertEqual(said, loss < least, losses)
            least = min(least, loss)
        self.assertNotEqual(losses[-1][0], least, "a test without a worse one")
        figures = self.figures("--resume", best, "--steps", 0)
        self.assertAlmostEqual(figures["val_loss"], least, places=4)
        # A resumed training knows the best one of before.
        os.remove(best)
        printed = self.succeeds("--resume", self.path("last.safetensors"), "--steps", 0, "--best", best)
        self.assertNotIn("the best so far", printed)
        self.assertFalse(os.path.exists(best))

    def test_saving_meanwhile_survives_a_crash(self):
        file = self.path("crash.safetensors")
        command = self.command(*self.last_given([*self.training, "--steps", 10_000_000]), "--save-every", 3, "--save", file)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            while not os.path.exists(file) and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        steps = self.figures("--resume", file, "--stop-after", 0)["steps"]
        self.assertTrue(steps > 0 and steps % 3 == 0, steps)
        self.fails(2, [*self.training, "--save-every", 3], "--save")

    def test_every_step_is_logged(self):
        log = self.path("log.jsonl")
        figures = self.figures(*self.training, "--log", log, "--validate-every", 6)

        def lines():
            with open(log, encoding="utf-8") as file:
                return [json.loads(line) for line in file]

        whole = lines()
        steps = [line for line in whole if "train/loss" in line]
        self.assertEqual([line["step"] for line in steps], list(range(1, 13)))
        self.assertAlmostEqual(sum(line["train/loss"] for line in steps) / 12, figures["train_loss"], places=6)
        self.assertAlmostEqual(steps[1]["train/learning_rate"], 0.01 * 2 / 4)
        self.assertTrue(all(line["train/gradient_norm"] > 0 for line in steps))
        validations = [line for line in whole if "validation/loss" in line]
        self.assertEqual([line["step"] for line in validations], [6, 12])
        self.assertEqual(validations[-1]["validation/loss"], figures["val_loss"])
        # A training that ended later than its last checkpoint, in the middle of a line.
        with open(log, "a", encoding="utf-8") as file:
            file.write('{"step":13,"train/')
        self.succeeds("--resume", self.stopped, "--log", log, "--validate-every", 6)
        self.assertEqual(lines(), whole)
        self.succeeds(*self.training, "--log", log, "--validate-every", 6)
        self.assertEqual(lines(), whole)
        # One that is at its end validates once more, which is in the log once.
        ended = self.path("ended.safetensors")
        self.succeeds(*self.training, "--log", log, "--validate-every", 6, "--save", ended)
        self.succeeds("--resume", ended, "--log", log)
        self.assertEqual(lines(), whole)
        self.fails(1, [*self.training, "--log", self.path("no/such.jsonl")], "--log", "no folder")
        self.fails(1, [*self.training, "--tensorboard", self.text], "text.txt")
        for flags in (self.training, ("--resume", self.stopped)):
            self.fails(1, [*flags, "--log", "/dev/full"], "/dev/full", "can't be written")

    def test_tensorboard_has_a_file_per_run(self):
        folder = self.path("runs/first")
        self.succeeds(*self.training, "--tensorboard", folder)
        self.assertEqual(len(os.listdir(folder)), 1)
        self.assertGreater(os.path.getsize(os.path.join(folder, os.listdir(folder)[0])), 12 * 3 * 40)


if __name__ == "__main__":
    unittest.main()
