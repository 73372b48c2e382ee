"""train_segmentation as a whole, on clouds that it draws and on small files."""
import json
import os
import struct
import unittest
import zlib

from program import ADVICE, ProgramCase


def png(rows, colors):
    """A PNG of rows of bytes; colors: 1 for grey, 3 for RGB."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    size = struct.pack(">IIBBBBB", len(rows[0]) // colors, len(rows), 8, 0 if colors == 1 else 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def size_of(path):
    with open(path, "rb") as file:
        return struct.unpack(">II", file.read(24)[16:])


def tensors_of(path):
    """Names and shapes in a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return {name: tensor["shape"] for name, tensor in header.items() if name != "__metadata__"}


class TrainSegmentation(ProgramCase):
    program = "train_segmentation"
    flags = ("--base-width", "2", "--height", "32", "--width", "32", "--clouds", "12", "--validation", "5", "--batch",
             "2", "--epochs", "1", "--threads", "2")

    @classmethod
    def pairs(cls, name, count=6, height=40, width=36, mask=None):
        """A folder of images, of which the right part is bright, and of their masks."""
        for part in ("images", "masks"):
            os.makedirs(cls.path(f"{name}/{part}"))
        for i in range(count):
            edge = 8 + 4 * i
            row = bytes(3 * edge) + bytes([200] * (3 * (width - edge)))
            cls.write(f"{name}/images/{i}.png", png([row] * height, 3))
            cls.write(f"{name}/masks/{i}.png", mask or png([bytes(edge) + bytes([1] * (width - edge))] * height, 1))
        return cls.path(name)

    def test_learns_clouds_and_reports(self):
        figures = self.figures("--clouds", 100, "--epochs", 4, "--base-width", 4, "--lr", 0.02)
        self.assertGreater(figures["mean_iou"], 0.45)  # one class everywhere: at most 0.15
        self.assertLess(figures["val_loss"], 0.9)  # log(3) = 1.1 at first
        self.assertEqual(figures["steps"], 200)
        self.assertGreater(figures["samples_per_second"], 0)
        self.expect_predicted(figures)

    def test_every_configuration_is_predicted(self):
        self.expect_predicted(self.figures("--height", 33, "--width", 50, "--batch", 3))
        self.expect_predicted(self.figures("--bilinear", "--height", 47, "--width", 35, "--recompute", "none"))
        self.expect_predicted(self.figures("--dtype", "bf16", "--recompute", "blocks"))
        self.expect_predicted(self.figures("--crop", 0.75, "--accumulate", 3, "--optimizer", "sgd", "--steps", 3))
        dry = self.figures("--device", "dry")
        self.assertEqual(dry["peak_bytes_predicted"], self.figures()["peak_bytes_allocated"])
        self.assertIsNone(dry["val_loss"])

    def test_recomputation_changes_no_bit(self):
        runs = [self.figures("--recompute", way, "--accumulate", 2) for way in ("none", "cheap", "blocks")]
        self.assertEqual(len({run["state_sha256"] for run in runs}), 1)
        self.assertEqual(len({run["mean_iou"] for run in runs}), 1)
        peaks = [run["peak_bytes_allocated"] for run in runs]
        self.assertEqual(peaks, sorted(peaks, reverse=True))
        for run in runs:
            self.expect_predicted(run)

    def test_says_where_smaller_micro_batches_are_another_training(self):
        text = "batch norm takes its statistics over 2 samples, not over the 6 of a step"
        self.assertIn(text, self.succeeds("--steps", 1, "--accumulate", 3))
        self.assertNotIn("batch norm", self.succeeds("--steps", 1, "--accumulate", 1))
        size = ("--height", 64, "--width", 64, "--base-width", 8)
        least = self.figures("--batch", 8, *size, "--budget", 10**9)["floor_bytes"]
        advice = ADVICE.search(self.run_program("--batch", 8, *size, "--memory-limit", least - (2 << 20)).stderr.splitlines()[0])
        self.assertIn("--split-batch", advice["flags"])
        self.assertIsNotNone(advice["another"])
        self.assertIn("batch norm takes its statistics over", self.succeeds("--batch", 8, *size, *advice["flags"].split()))

    def test_validations_change_no_bit_of_a_training(self):
        self.expect_validations_change_nothing("--steps", 4)

    def test_validations_see_no_augmentation_and_the_whole_split(self):
        ways = (("none", 1), ("horizontal", 1), ("both", 1), ("none", 0.6))
        self.expect_seen_in_training_alone(ways=[("--flips", flips, "--crop", crop) for flips, crop in ways])
        self.expect_validations_by_any_batch(batches=(2, 1, 3, 5))

    def test_other_images_validate_than_train(self):
        folder = self.pairs("split")
        others = {f"{folder}/images/{i}.png": png([bytes([9 * i]) * 108] * 40, 3) for i in range(6)}
        self.expect_each_image_in_one_split(others, 2, "--data", folder, "--classes", 2, "--validation", 2, "--lr", 0.02)

    def test_an_epoch_takes_whole_batches(self):
        for flags, steps in ((("--batch", 5, "--epochs", 3), 6), (("--batch", 12,), 1), (("--batch", 2, "--accumulate", 4, "--epochs", 3), 4)):
            self.assertEqual(self.figures(*flags)["steps"], steps)

    def test_the_learning_rate_in_the_log_is_the_one_that_is_applied(self):
        self.expect_logged_rates_are_applied(optimizers=("sgd",))

    def test_a_stopped_and_resumed_training_is_the_uninterrupted_one(self):
        file = self.path("stopped.safetensors")
        whole = self.figures()
        self.figures("--stop-after", 4, "--save", file)
        resumed = self.figures("--resume", file)
        for figure in ("state_sha256", "val_loss", "mean_iou", "steps"):
            self.assertEqual(resumed[figure], whole[figure])
        self.expect_predicted(resumed)
        self.fails(1, ["--resume", file, "--noise", 2], "stopped.safetensors", "noise")
        self.fails(1, ["--resume", file, "--base-width", 3], "stopped.safetensors", "base_width 2, not 3")

    def test_begins_with_a_file_of_weights(self):
        file = self.path("weights.safetensors")
        self.figures("--epochs", 2, "--bilinear", "--save", file)
        names = tensors_of(file)
        self.assertEqual(names["down3.maxpool_conv.1.double_conv.4.running_mean"], [16])
        command = ("--from", file, "--lr", 0, "--steps", 1)
        self.assertNotIn("head", self.succeeds("--base-width", 2, *command))
        self.assertIn("; the head stays as initialised", self.succeeds(*command, "--classes", 4))
        self.fails(2, ["--from", file, "--base-width", 3], "--base-width 3: it is 2 in")
        self.fails(1, ["--from", self.write("none.safetensors", b"\2\0\0\0\0\0\0\0{}")], "none.safetensors", "not a U-Net")
        self.fails(1, ["--from", self.write("unet.pth", b"PK\3\4" + bytes(range(8, 40)))], "unet.pth", "convert_pth")

    def test_trains_on_files(self):
        folder = self.pairs("files")
        flags = ("--data", folder, "--classes", 2, "--validation", 1, "--batch", 5, "--steps", 40, "--lr", 0.02)
        pictures = self.path("drawn")
        figures = self.figures(*flags, "--pictures", pictures)
        self.assertGreater(figures["mean_iou"], 0.7)
        self.expect_predicted(figures)
        self.assertEqual(sorted(os.listdir(pictures)), ["loss.svg", "mask0.png"])
        self.assertEqual(size_of(os.path.join(pictures, "mask0.png")), (3 * 32 + 2 * 2, 32))
        printed = self.succeeds(*flags[2:], "--images", f"{folder}/images", "--masks", f"{folder}/masks")
        self.assertIn(f"5 images of {folder}/images to train on, 1 others to validate; 32 wide, 32 high", printed)
        printed = self.succeeds(*flags, "--height", 8, "--width", 20)
        self.assertIn("20 wide, 16 high, the smallest size that a U-Net takes", printed)

    def test_goes_on_with_files_by_the_checkpoint_alone(self):
        file = self.path("files.safetensors")
        whole = self.figures("--data", self.pairs("more"), "--classes", 2, "--validation", 2)
        self.succeeds("--data", self.path("more"), "--classes", 2, "--validation", 2, "--stop-after", 1, "--save", file)
        self.assertEqual(self.figures("--resume", file, "--validation", 2)["state_sha256"], whole["state_sha256"])

    def test_pictures_that_cannot_be_drawn_cost_no_training(self):
        file = self.write("file", "")
        for folder in (file, f"{file}/below", f"{file}/far/below"):
            line = self.fails(1, ["--pictures", folder, "--json", self.path("none.json")], f"--pictures {folder}", "is a file")
            self.assertIn(f"{file} is a file; name a folder", line)
        self.fails(1, ["--tensorboard", f"{file}/below"], "--tensorboard", "is a file")

    def test_large_images_fit_a_gpu_by_cheap_recomputation(self):
        large = ("--height", 1400, "--width", 2100, "--base-width", 64, "--clouds", 4, "--validation", 1, "--device", "dry",
                 "--gpu", "RTX 2080 Ti")
        one = (*large, "--batch", 1, "--accumulate", 4, "--recompute")
        self.assertLess(self.figures(*one, "cheap")["peak_bytes_predicted"], 9.4e9)
        self.fails(3, (*one, "none"), "out of memory")
        usable = (int(10.76 * 2 ** 30) - (600 << 20)) // (2 << 20) * (2 << 20)
        self.fails(1, (*large, "--batch", 4, "--split-batch", "--dtype", "bf16"), "use f16 (--dtype f16)")
        seconds = []
        for dtype in ("f32", "f16"):
            planned = self.figures(*large, "--batch", 4, "--split-batch", "--dtype", dtype)
            self.assertEqual((planned["budget_bytes"], planned["batch"] * planned["accumulate"]), (usable, 4))
            self.assertLessEqual(planned["peak_bytes_reserved_predicted"], usable)
            seconds.append(planned["step_seconds_predicted"])
        self.assertGreater(seconds[0], 2 * seconds[1], "halves are multiplied by tensor cores")
        self.fails(2, ("--split-batch",), "--split-batch needs --budget, except on a GPU")

    def test_data_that_cannot_be_used(self):
        flags = ("--classes", 2, "--validation", 2, "--data")
        self.fails(1, [*flags, self.path("missing")], "missing", "no such folder")
        self.fails(1, [*flags, self.pairs("nothing", count=0)], "images: has no PNG or JPEG in it")
        self.fails(1, [*flags, self.pairs("two", count=2)], "2 images", "none is left to train on")
        self.fails(1, [*flags, self.pairs("few", count=3)], "--batch 2", "1 images")
        sizes = self.pairs("sizes", mask=png([bytes(30)] * 40, 1))
        self.fails(1, [*flags, sizes], "masks/", "is 30 wide, 40 high", "is 36 wide, 40 high")
        classes = self.pairs("classes", mask=png([bytes(35) + b"\2"] * 40, 1))
        self.fails(1, [*flags, classes], "masks/", "values 0,2", "but 2 classes are 0 to 1", "--mask-values 0,2")
        for device in ("cpu", "dry"):
            self.fails(1, [*flags, classes, "--mask-values", "0,1", "--device", device], "masks/", "value 2",
                       "row 0, column 35", "not the value of any of the 2 classes (0, 1)")
        self.fails(1, [*flags, self.pairs("color", mask=png([bytes(108)] * 40, 3))], "masks/")
        damaged = self.pairs("damaged", count=4)
        for i in range(4):
            with open(f"{damaged}/images/{i}.png", "r+b") as file:
                file.truncate(60)
        self.fails(1, [*flags, damaged], "damaged/images/", ".png", "none of 2 images can be used")
        os.remove(f"{damaged}/masks/2.png")
        self.fails(1, [*flags, damaged], "images/2.png", "no mask")
        self.succeeds("--data", self.pairs("border", mask=png([bytes(35) + b"\xff"] * 40, 1)), "--validation", 2,
                      "--ignore", 255, "--classes", 2, "--steps", 1)
        unknown = self.pairs("unknown", mask=png([b"\xff" * 36] * 40, 1))
        self.fails(1, ["--data", unknown, "--validation", 2, "--ignore", 255, "--steps", 1], "no pixel", "--ignore 255")

    def test_masks_of_black_and_white_are_two_classes(self):
        ids, white = (self.pairs(f"of_{value}", mask=png([bytes(18) + bytes([value] * 18)] * 40, 1)) for value in (1, 255))
        flags = ("--validation", 2, "--steps", 4)
        file = self.path("white.safetensors")
        printed = self.succeeds("--data", white, *flags, "--stop-after", 2, "--save", file)
        self.assertIn("; values 0,255 of masks are classes 0 to 1;", printed)
        resumed = self.figures("--resume", file, "--validation", 2)
        self.assertEqual(resumed["state_sha256"], self.figures("--data", ids, "--classes", 2, *flags)["state_sha256"])
        named = self.figures("--data", white, "--mask-values", "0,255", *flags)
        self.assertEqual(named["state_sha256"], resumed["state_sha256"])
        other = self.figures("--data", white, "--mask-values", "255,0", *flags)
        self.assertNotEqual(other["state_sha256"], resumed["state_sha256"])
        self.assertNotIn("val_note", other)
        begun = self.succeeds("--data", white, "--from", file, *flags)
        self.assertNotIn("head stays", begun)
        three = self.path("three.safetensors")
        self.succeeds("--steps", 1, "--save", three)
        self.assertIn("; the head stays as initialised", self.succeeds("--data", white, "--from", three, *flags))
        self.fails(1, ["--resume", file, "--validation", 2, "--mask-values", "255,0"], 'mask_values "0,255", not "255,0"')
        self.fails(2, ["--data", white, "--classes", 3], "--classes 3: --mask-values 0,255 names 2")
        self.fails(2, ["--data", white, "--mask-values", "0,255", "--ignore", 255], "--ignore 255", "makes it a class")
        self.fails(2, ["--data", white, "--mask-values", "0,300"], "--mask-values", "0,300 is not a list of values")
        self.fails(2, ["--mask-values", "0,255"], "--mask-values is for files")

    def test_a_validation_of_one_class_says_so(self):
        white = self.pairs("ignored", mask=png([bytes(18) + b"\xff" * 18] * 40, 1))
        flags = ("--data", white, "--classes", 2, "--ignore", 255, "--validation", 2, "--steps", 1)
        self.assertRegex(self.succeeds(*flags), r"mean IoU \d+\.\d\d%; only class 0 occurs in it\n")
        self.assertEqual(self.figures(*flags)["val_note"], "only class 0 occurs in it")

    def test_long_validations_are_announced(self):
        text = "the training takes 1 batch, and its validation 10\n"
        printed = self.succeeds("--steps", 1, "--validation", 20)
        self.assertIn(text, printed)
        self.assertLess(printed.index(text), printed.index("step 1/1"))
        printed = self.succeeds("--steps", 5, "--validate-every", 1)
        self.assertIn("the training takes 5 batches, each validation 3\n", printed)
        self.assertNotIn("the training takes", self.succeeds("--steps", 10, "--validation", 20))
        self.assertNotIn("the training takes", self.succeeds("--steps", 1, "--validation", 18))

    def test_bad_images_and_masks_give_their_places_to_others(self):
        folder = self.pairs("partly", count=12)
        with open(f"{folder}/images/3.png", "r+b") as file:
            file.truncate(60)
        os.remove(f"{folder}/masks/7.png")
        flags = ("--data", folder, "--classes", 2, "--validation", 2, "--steps", 8)
        self.fails(1, flags, "images/7.png: has no mask")
        os.symlink("/dev/null", f"{folder}/masks/7.png")
        self.fails(1, flags, "; 2 of 12 images can't be used; --skip-bad-images")
        printed = self.succeeds(*flags, "--skip-bad-images")
        self.assertIn("skipping 2 bad images and using others instead:\n  ", printed)
        for name in ("images/3.png: damaged PNG", "masks/7.png: is a device"):
            self.assertIn(name, printed)
        self.assertEqual(self.figures(*flags, "--skip-bad-images")["skipped_images"], 2)
        self.fails(2, ["--skip-bad-images"], "--skip-bad-images is for files")

    def test_wrong_usage_and_failures(self):
        for flags in (["--base-width", 0], ["--classes", 1], ["--crop", 0], ["--flips", "all"], ["--model", "vgg"],
                      ["--steps", -1], ["--validation", 0], ["--bogus"], ["--masks", "x"]):
            self.fails(2, flags, flags[0])
        self.fails(2, ["--data", "x", "--images", "y", "--masks", "z"], "--data and --images")
        self.fails(1, ["--batch", 1, "--height", 16, "--width", 16], "batch_norm")

    def test_memory_that_does_not_suffice_is_known_beforehand(self):
        flags = ("--batch", 4, "--height", 64, "--width", 64, "--base-width", 8)
        limit = self.figures(*flags)["peak_bytes_reserved"] - 1
        self.fails(3, (*flags, "--memory-limit", limit), "out of memory", "it fits with")
        self.fails(3, (*flags, "--device", "dry", "--gpu-memory", "603MiB"), "out of memory")


if __name__ == "__main__":
    unittest.main()
