"""train_mnist as a whole, on synthetic images, and on real ones where they are."""
import gzip
import math
import os
import re
import shutil
import struct
import subprocess
import unittest

from program import ProgramCase, data_file


def images(count, rows=28, columns=28):
    """An image shows its class as a bright line, and some noise."""
    pixels = bytearray()
    for i in range(count):
        for row in range(rows):
            pixels += bytes(230 if row == 2 + 2 * (i % 10) else (i * 37 + row * 11 + column * 7) % 60
                            for column in range(columns))
    return struct.pack(">IIII", 0x803, count, rows, columns) + bytes(pixels)


def labels(count, shift=0):
    return struct.pack(">II", 0x801, count) + bytes((i % 10) + shift for i in range(count))


class TrainMnist(ProgramCase):
    program = "train_mnist"
    flags = ("--hidden", "32", "--batch", "20", "--validation", "50", "--epochs", "12", "--threads", "2", "--lr", "0.01",
             "--dropout", "0.1")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.dataset("data", images(250), labels(250))

    @classmethod
    def dataset(cls, name, image_bytes, label_bytes, compressed=True):
        os.makedirs(cls.path(name))
        end = ".gz" if compressed else ""
        pack = gzip.compress if compressed else bytes
        cls.write(f"{name}/t10k-images-idx3-ubyte{end}", pack(image_bytes))
        cls.write(f"{name}/t10k-labels-idx1-ubyte{end}", pack(label_bytes))
        return cls.path(name)

    def test_trains_on_the_training_files_where_they_are(self):
        both = self.dataset("both", images(60), labels(60))
        self.write("both/train-images-idx3-ubyte", images(200))
        printed = self.run_program("--data", both, "--epochs", 1).stderr
        self.assertIn("train-labels", printed)
        self.write("both/train-labels-idx1-ubyte", labels(200))
        printed = self.succeeds("--data", both, "--epochs", 1)
        self.assertIn("200 images of train-* to train on, 50 of t10k-* to validate", printed)
        self.assertIn("step 10/10", printed)  # of 20 images each
        self.assertIn("200 images of t10k-* to train on, 50 others of them to validate",
                      self.succeeds("--data", self.data, "--epochs", 1))
        whole = self.figures("--data", both, "--epochs", 3, "--validation", 60)
        self.expect_predicted(whole)
        self.fails(1, ["--data", both, "--validation", 61], "--validation 61", "60 images")
        os.remove(self.path("both/t10k-images-idx3-ubyte.gz"))
        self.fails(1, ["--data", both], "t10k-images")

    def test_flags_are_those_of_the_checkpoint(self):
        file = self.path("flags.safetensors")
        plain = ("--data", self.data, "--epochs", 2)
        self.succeeds(*plain, "--stop-after", 7, "--save", file)
        command = [*self.command()[:1], "--resume", file, "--threads", "2"]
        self.assertIn("step 20/20", subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        other = [os.path.join(os.path.dirname(command[0]), "train_gpt"), *command[1:]]
        self.assertEqual(subprocess.run(other, capture_output=True, text=True, check=False).stderr,
                         f"train_gpt: {file}: a checkpoint of another program, not of train_gpt\n")

    def test_learns_and_reports(self):
        figures = self.figures("--data", self.data)
        self.assertGreater(figures["val_accuracy"], 0.9)
        self.assertLess(figures["val_loss"], 1)  # log(10) = 2.3 at first
        self.assertGreater(figures["samples_per_second"], 0)
        self.assertEqual(figures["parameters"], 785 * 32 + 33 * 32 + 33 * 10)
        self.assertEqual(figures["steps"], 120)
        self.assertEqual(self.figures("--data", self.data, "--steps", 3)["steps"], 3)
        self.expect_predicted(figures)

    def test_the_seed_decides_and_compression_does_not(self):
        plain = self.dataset("plain", images(250), labels(250), compressed=False)
        first = self.figures("--data", self.data)["state_sha256"]
        self.assertEqual(self.figures("--data", plain)["state_sha256"], first)
        self.assertNotEqual(self.figures("--data", self.data, "--seed", 2)["state_sha256"], first)

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
            self.assertRegex(run.stderr, "^train_mnist: cuda: .*\n$")
            self.skipTest(run.stderr.strip())
        graphs = self.figures(*flags, "--graphs")
        self.assertEqual(graphs["state_sha256"], self.figures(*flags)["state_sha256"])
        self.assertNotIn("graph_refusal", graphs)
        self.expect_predicted(graphs)

    def test_other_sizes_are_predicted_too(self):
        self.expect_predicted(self.figures("--data", self.data, "--batch", 7, "--hidden", 33, "--epochs", 1))
        self.expect_predicted(self.figures("--data", self.data, "--batch", 100, "--threads", 1, "--epochs", 1))

    def test_accumulating_is_the_big_batch(self):
        big = self.figures("--data", self.data, "--epochs", 2, "--dropout", 0, "--shift", 0)
        small = self.figures("--data", self.data, "--epochs", 2, "--dropout", 0, "--shift", 0, "--batch", 5,
                             "--accumulate", 4)
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

    def test_validations_change_no_bit_of_a_training(self):
        self.expect_validations_change_nothing("--data", self.data, "--epochs", 1)

    def test_validations_see_neither_shifts_nor_dropout_and_the_whole_split(self):
        flags = ("--data", self.data)
        self.expect_validations_alike(*flags, "--dropout", 0.5, "--shift", 4)
        self.expect_seen_in_training_alone(*flags, ways=[("--dropout", dropout, "--shift", shift)
                                                         for dropout, shift in ((0, 0), (0.5, 0), (0, 4), (0, 2))])
        self.expect_validations_by_any_batch(*flags, batches=(20, 1, 7, 50))

    def test_other_images_validate_than_train(self):
        wrong = bytes((i + 1) % 10 for i in range(60))
        apart = self.dataset("apart", images(60), labels(60)[:8] + wrong)
        self.write("apart/train-images-idx3-ubyte", images(200))
        self.write("apart/train-labels-idx1-ubyte", labels(200))
        split = self.dataset("split", images(250), labels(250)[:-50] + wrong[:50])
        for data in (apart, split):
            figures = self.figures("--data", data, "--shift", 0, "--dropout", 0)
            self.assertLess(figures["train_loss"], 1)
            self.assertLess(figures["val_accuracy"], 0.1)
            self.assertGreater(figures["val_loss"], 2 * math.log(10))

    def test_an_epoch_takes_each_image_once_in_whole_batches(self):
        for flags, steps in ((("--batch", 30, "--epochs", 3), 18), (("--batch", 200), 12), (("--batch", 101), 12),
                             (("--batch", 30, "--epochs", 3, "--accumulate", 4), 4)):
            self.assertEqual(self.figures("--data", self.data, *flags)["steps"], steps)
            lines = self.logged("--data", self.data, *flags)
            self.assertEqual([line["step"] for line in lines if "train/loss" in line], list(range(1, steps + 1)))

    def test_the_learning_rate_in_the_log_is_the_one_that_is_applied(self):
        self.expect_logged_rates_are_applied("--data", self.data, "--accumulate", 2)

    def test_a_stopped_and_resumed_training_is_the_uninterrupted_one(self):
        file = self.path("stopped.safetensors")
        whole = self.figures("--data", self.data, "--epochs", 3, "--accumulate", 2)
        stopped = self.figures("--data", self.data, "--epochs", 3, "--accumulate", 2, "--stop-after", 7, "--save", file)
        self.assertEqual((stopped["steps"], stopped["val_loss"]), (7, None))
        resumed = self.figures("--data", self.data, "--epochs", 3, "--accumulate", 2, "--resume", file)
        self.assertEqual(resumed["steps"], whole["steps"])
        for figure in ("state_sha256", "val_loss", "val_accuracy"):
            self.assertEqual(resumed[figure], whole[figure])
        self.expect_predicted(resumed)
        for flags, part in ((["--hidden", 33], "hidden 32, not 33"), (["--shift", 1], "shift 2, not 1"),
                            (["--dtype", "bf16"], "dtype"), (["--batch", 10], "batch")):
            self.fails(1, ["--data", self.data, "--accumulate", 2, *flags, "--resume", file], "stopped.safetensors",
                       part)

    def test_memory_that_does_not_suffice_is_known_beforehand(self):
        page = self.path("memory.html")
        self.succeeds("--data", self.data, "--epochs", 1, "--memory-history", page)
        self.assertTrue(os.path.exists(page))
        flags = ("--data", self.data, "--batch", 100, "--accumulate", 2, "--hidden", 112, "--epochs", 2)
        limit = self.figures(*flags)["peak_bytes_reserved"] - 1
        line = self.fails(3, (*flags, "--memory-limit", limit), "out of memory", "it fits with")
        advice = re.search(r"it fits with --batch (\d+) --accumulate (\d+) ", line)
        self.assertEqual(int(advice[1]) * int(advice[2]), 200)
        self.expect_predicted(self.figures("--data", self.data, "--hidden", 112, "--epochs", 2, "--memory-limit", limit,
                                           "--batch", advice[1], "--accumulate", advice[2]))

    def test_data_that_cannot_be_used(self):
        self.fails(1, ["--data", self.path("missing")], "missing")
        self.fails(1, ["--data", self.dataset("text", b"no images", labels(250))], "t10k-images")
        self.fails(1, ["--data", self.dataset("short", images(250)[:-1], labels(250))], "t10k-images")
        self.fails(1, ["--data", self.dataset("fewer", images(250), labels(249))], "249")
        self.fails(1, ["--data", self.dataset("classes", images(250), labels(250, shift=1))], "t10k-labels")
        self.fails(1, ["--data", self.dataset("small", images(250, 8, 8), labels(250))], "28 x 28", "8 wide, 8 high")
        damaged = self.dataset("damaged", images(250), labels(250))
        with open(self.path("damaged/t10k-images-idx3-ubyte.gz"), "r+b") as file:
            file.truncate(1000)
        self.fails(1, ["--data", damaged], "t10k-images")
        self.fails(1, ["--data", self.data, "--validation", 250], "--batch 20", "0 are left", "--validation 250")
        self.fails(1, ["--data", self.data, "--validation", 251], "--validation 251", "has 250 images")
        self.fails(1, ["--data", self.data, "--batch", 300, "--validation", 10], "--batch 300", "240 are left to train on")

    def test_wrong_usage_and_failures(self):
        for flags in (["--hidden", 0], ["--lr", "nan"], ["--epochs", -1], ["--seed", -1], ["--bogus"], ["--device", "tpu"]):
            self.fails(2, ["--data", self.data, *flags], flags[0])
        self.fails(2, [], "--data is required")
        self.fails(3, ["--data", self.data, "--hidden", 512, "--memory-limit", "2MiB"], "out of memory")
        self.fails(1, ["--data", self.data, "--json", self.path("no/such.json")], "--json", "no folder")
        self.fails(1, ["--data", self.data, "--lr", "1e30"], "step", "not finite", "lower --lr")

    def test_real_images(self):
        files = [data_file(name) for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")]
        if not all(files):
            self.skipTest("no MNIST in ../shared/data or HEADROOM_DATA")
        os.makedirs(self.path("real"))
        for file in files:
            shutil.copy(file, self.path("real"))
        figures = self.figures("--data", self.path("real"), "--validation", 1000, "--hidden", 64, "--epochs", 1, "--batch", 100,
                               "--lr", 0.003)
        self.assertGreater(figures["val_accuracy"], 0.85)
        self.expect_predicted(figures)


if __name__ == "__main__":
    unittest.main()
