"""train_images --model mlp as a whole: what a model without batch statistics shows of every program."""
import os
import subprocess
import unittest

from idx_files import images, labels
from program import ADVICE, ProgramCase


class TrainPerceptron(ProgramCase):
    program = "train_images"
    flags = ("--model", "mlp", "--hidden", "32", "--batch", "20", "--validation", "50", "--epochs", "12", "--threads", "2",
             "--lr", "0.01", "--warmup", "20", "--dropout", "0.1", "--augment", "none")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.makedirs(cls.path("data"))
        cls.write("data/t10k-images-idx3-ubyte", images(250))
        cls.write("data/t10k-labels-idx1-ubyte", labels(250))
        cls.data = cls.path("data")

    def test_learns_and_reports(self):
        figures = self.figures("--data", self.data)
        self.assertGreater(figures["val_accuracy"], 0.9)
        self.assertLess(figures["val_loss"], 1)  # log(10) = 2.3 at first
        self.assertGreater(figures["samples_per_second"], 0)
        self.assertEqual(figures["parameters"], 785 * 32 + 33 * 32 + 33 * 10)
        self.assertEqual(figures["steps"], 120)
        self.expect_predicted(figures)
        self.assertNotEqual(self.figures("--data", self.data, "--seed", 2)["state_sha256"], figures["state_sha256"])

    def test_has_the_layers_that_are_asked_for(self):
        for layers, parameters in ((0, 785 * 10), (1, 785 * 32 + 33 * 10), (4, 785 * 32 + 3 * 33 * 32 + 33 * 10)):
            figures = self.figures("--data", self.data, "--layers", layers, "--epochs", 1)
            self.assertEqual(figures["parameters"], parameters)
            self.expect_predicted(figures)
        colours = self.figures("--device", "dry", "--height", 8, "--width", 4)
        self.assertEqual(colours["parameters"], 33 * 32 + 33 * 32 + 33 * 10)
        for flags in (["--hidden", 33], ["--layers", 3], ["--dropout", 0.2]):
            usual = [word for pair in (("--hidden", 512), ("--dropout", 0.3)) if pair[0] != flags[0] for word in pair]
            self.fails(2, ["--data", self.data, "--model", "small", *usual, *flags], flags[0], "is for --model mlp")

    def test_flags_are_those_of_the_checkpoint(self):
        file = self.path("flags.safetensors")
        self.succeeds("--data", self.data, "--epochs", 2, "--stop-after", 7, "--save", file)
        command = [*self.command()[:1], "--resume", file, "--threads", "2"]
        self.assertIn("step 20/20", subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        other = [os.path.join(os.path.dirname(command[0]), "train_gpt"), *command[1:]]
        self.assertEqual(subprocess.run(other, capture_output=True, text=True, check=False).stderr,
                         f"train_gpt: {file}: a checkpoint of another program, not of train_gpt\n")

    def test_sgd_learns_too_and_keeps_one_array_a_parameter(self):
        flags = ("--data", self.data, "--optimizer", "sgd", "--lr", "0.05")
        figures = self.figures(*flags)
        self.assertGreater(figures["val_accuracy"], 0.8)  # 0.1 by chance
        self.assertLess(figures["resident_bytes"], self.figures("--data", self.data)["resident_bytes"])
        self.assertNotEqual(self.figures(*flags, "--momentum", 0)["state_sha256"], figures["state_sha256"])
        self.expect_predicted(figures)

    def test_the_losses_are_drawn(self):
        folder = self.path("pictures/of/this")
        self.assertIn(f"the losses in {folder}", self.succeeds("--data", self.data, "--pictures", folder))
        with open(os.path.join(folder, "loss.svg"), encoding="utf-8") as drawing:
            self.assertIn("training loss", drawing.read())
        self.fails(1, ["--data", self.data, "--pictures", os.path.join(folder, "loss.svg")], "--pictures", "loss.svg")

    def test_a_dry_device_predicts(self):
        dry = self.figures("--data", self.data, "--device", "dry")
        self.assertEqual(dry["peak_bytes_predicted"], self.figures("--data", self.data)["peak_bytes_allocated"])
        self.assertIsNone(dry["val_loss"])

    def test_graphs_change_no_bit(self):
        flags = ("--data", self.data, "--epochs", 1, "--accumulate", 2, "--device", "cuda")
        if (run := self.run_program(*flags)).returncode != 0:
            self.assertRegex(run.stderr, "^train_images: cuda: .*\n$")
            self.skipTest(run.stderr.strip())
        graphs = self.figures(*flags, "--graphs")
        self.assertEqual(graphs["state_sha256"], self.figures(*flags)["state_sha256"])
        self.assertNotIn("graph_refusal", graphs)
        self.expect_predicted(graphs)

    def test_other_sizes_are_predicted_too(self):
        self.expect_predicted(self.figures("--data", self.data, "--batch", 7, "--hidden", 33, "--epochs", 1))
        self.expect_predicted(self.figures("--data", self.data, "--batch", 100, "--threads", 1, "--epochs", 1))

    def test_accumulating_is_the_big_batch(self):
        big = self.figures("--data", self.data, "--epochs", 2, "--dropout", 0)
        small = self.figures("--data", self.data, "--epochs", 2, "--dropout", 0, "--batch", 5, "--accumulate", 4)
        self.assertEqual(small["steps"], big["steps"])
        self.assertAlmostEqual(small["val_loss"], big["val_loss"], places=3)
        self.expect_predicted(small)

    def test_halves_are_predicted(self):
        full = self.figures("--data", self.data)
        for dtype in ("bf16", "f16"):
            half = self.figures("--data", self.data, "--dtype", dtype)
            self.assertNotEqual(half["state_sha256"], full["state_sha256"])
            self.assertGreater(half["val_accuracy"], 0.8)  # of 50 images; by chance 0.1
            self.expect_predicted(half)

    def test_an_epoch_takes_each_image_once_in_whole_batches(self):
        for flags, steps in ((("--batch", 30, "--epochs", 3), 18), (("--batch", 200), 12), (("--batch", 101), 12),
                             (("--batch", 30, "--epochs", 3, "--accumulate", 4), 4)):
            self.assertEqual(self.figures("--data", self.data, *flags)["steps"], steps)
            lines = self.logged("--data", self.data, *flags)
            self.assertEqual([line["step"] for line in lines if "train/loss" in line], list(range(1, steps + 1)))
        self.assertEqual(self.figures("--data", self.data, "--steps", 3)["steps"], 3)

    def test_the_learning_rate_in_the_log_is_the_one_that_is_applied(self):
        self.expect_logged_rates_are_applied("--data", self.data, "--accumulate", 2)

    def test_a_stopped_and_resumed_training_is_the_uninterrupted_one(self):
        file = self.path("stopped.safetensors")
        flags = ("--data", self.data, "--epochs", 3, "--accumulate", 2, "--augment", "affine")
        whole = self.figures(*flags)
        stopped = self.figures(*flags, "--stop-after", 7, "--save", file)
        self.assertEqual((stopped["steps"], stopped["val_loss"]), (7, None))
        resumed = self.figures(*flags, "--resume", file)
        self.assertEqual(resumed["steps"], whole["steps"])
        for figure in ("state_sha256", "val_loss", "val_accuracy"):
            self.assertEqual(resumed[figure], whole[figure])
        self.expect_predicted(resumed)
        for changed, part in ((["--hidden", 33], "hidden 32, not 33"), (["--layers", 3], "layers 2, not 3"),
                              (["--dtype", "bf16"], "dtype"), (["--batch", 10], "batch")):
            self.fails(1, [*flags, *changed, "--resume", file], "stopped.safetensors", part)

    def test_averaged_weights_are_validated_and_resumed(self):
        file = self.path("averaged.safetensors")
        flags = ("--data", self.data, "--epochs", 3, "--ema-decay", 0.9)
        whole, plain = self.figures(*flags), self.figures(*flags[:-2])
        self.assertEqual(whole["train_loss"], plain["train_loss"])
        self.assertNotEqual(whole["val_loss"], plain["val_loss"])
        self.assertGreaterEqual(whole["resident_bytes"], plain["resident_bytes"] + 4 * plain["parameters"])
        self.expect_predicted(whole)
        self.succeeds(*flags, "--stop-after", 13, "--save", file)
        resumed = self.figures("--data", self.data, "--epochs", 3, "--resume", file)
        for figure in ("state_sha256", "val_loss", "val_accuracy"):
            self.assertEqual(resumed[figure], whole[figure])
        self.expect_predicted(resumed)
        self.fails(2, ["--data", self.data, "--ema-decay", 1], "--ema-decay")

    def test_memory_that_does_not_suffice_is_known_beforehand(self):
        page = self.path("memory.html")
        self.succeeds("--data", self.data, "--epochs", 1, "--memory-history", page)
        self.assertTrue(os.path.exists(page))
        flags = ("--data", self.data, "--batch", 100, "--accumulate", 2, "--hidden", 112, "--epochs", 2)
        limit = self.figures(*flags)["peak_bytes_reserved"] - 1
        advice = ADVICE.search(self.fails(3, (*flags, "--memory-limit", limit), "out of memory"))
        self.assertEqual(int(advice["batch"]) * int(advice["accumulate"]), 200)
        taken = self.figures(*flags, *advice["flags"].split())
        self.expect_predicted(taken)
        self.assertEqual(str(taken["batch"]), advice["batch"])
        self.fails(3, ["--data", self.data, "--hidden", 512, "--memory-limit", "2MiB"], "out of memory")

    def test_a_loss_that_is_not_finite_ends_it(self):
        self.fails(1, ["--data", self.data, "--lr", "1e30"], "step", "not finite", "lower --lr")


if __name__ == "__main__":
    unittest.main()
