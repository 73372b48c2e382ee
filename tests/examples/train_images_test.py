"""train_images as a whole, on images that the test draws: IDX files, CIFAR-10's, folders of PNG."""
import json
import math
import os
import shutil
import struct
import unittest
import zlib

from program import ADVICE, ProgramCase


def shade(label, sample, row, column):
    """An image shows its class as a bright bar, and some noise."""
    return 230 if 2 * label + 1 <= row <= 2 * label + 2 else (sample * 37 + row * 11 + column * 7) % 60


def idx(count, classes=4, side=12):
    pixels = bytes(shade(i % classes, i, row, column) for i in range(count) for row in range(side) for column in range(side))
    return (struct.pack(">IIII", 0x803, count, side, side) + pixels,
            struct.pack(">II", 0x801, count) + bytes(i % classes for i in range(count)))


def cifar(count):
    return b"".join(bytes([i % 10]) + bytes(shade(i % 10, i, row, column)
                                             for _ in "rgb" for row in range(32) for column in range(32)) for i in range(count))


def png(label, sample, height, width):
    rows = b"".join(b"\0" + bytes(shade(label, sample, row, column) for column in range(width) for _ in "rgb")
                    for row in range(height))

    def chunk(kind, contents):
        return struct.pack(">I", len(contents)) + kind + contents + struct.pack(">I", zlib.crc32(kind + contents))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def damaged_inside(image):
    """Whole at both ends, so that only decoding sees it."""
    return image[:100] + bytes([image[100] ^ 255]) + image[101:]


def resnet18_shapes(classes):
    """The tensors of torchvision's file, which lacks the counts of batches as old ones do."""
    shapes = {"conv1.weight": [64, 3, 7, 7], "fc.weight": [classes, 512], "fc.bias": [classes]}
    norms = {"bn1": 64}
    for stage, width in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            at = f"layer{stage}.{block}"
            narrow = width // 2 if stage > 1 and block == 0 else width
            shapes[f"{at}.conv1.weight"] = [width, narrow, 3, 3]
            shapes[f"{at}.conv2.weight"] = [width, width, 3, 3]
            norms |= {f"{at}.bn1": width, f"{at}.bn2": width}
            if narrow < width:
                shapes[f"{at}.downsample.0.weight"] = [width, narrow, 1, 1]
                norms[f"{at}.downsample.1"] = width
    for name, width in norms.items():
        shapes |= {f"{name}.{part}": [width] for part in ("weight", "bias", "running_mean", "running_var")}
    return shapes


def write_zeros(path, shapes):
    """A safetensors file of f32."""
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(file.tell() + at)
    return path


class TrainImages(ProgramCase):
    program = "train_images"
    flags = ("--batch", "10", "--validation", "20", "--epochs", "2", "--threads", "2", "--warmup", "2")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.digits = cls.dataset("digits", *idx(80))
        cls.photos = cls.folder_of("photos", ("ash", "oak", "yew"), 8)

    @classmethod
    def dataset(cls, name, images, labels):
        os.makedirs(cls.path(name))
        cls.write(f"{name}/t10k-images-idx3-ubyte", images)
        cls.write(f"{name}/t10k-labels-idx1-ubyte", labels)
        return cls.path(name)

    @classmethod
    def folder_of(cls, name, classes, count):
        for label, of_class in enumerate(classes):
            os.makedirs(cls.path(f"{name}/{of_class}"))
            for i in range(count):
                cls.write(f"{name}/{of_class}/{i}.png", png(label, i, 24 + i, 30))
        return cls.path(name)

    def test_learns_predicts_and_draws(self):
        pictures = self.path("drawn")
        figures = self.figures("--data", self.digits, "--epochs", 12, "--augment", "none", "--pictures", pictures)
        self.assertGreater(figures["val_accuracy"], 0.8)  # of 20 images of 4 classes
        self.assertEqual(figures["steps"], 72)
        self.expect_predicted(figures)
        drawn = sorted(os.listdir(pictures))
        self.assertEqual(drawn.pop(), "loss.svg")
        self.assertEqual(len(drawn), 10)
        self.assertRegex(drawn[1], r"^02_is_2_seen_as_\d\.png$")  # image 62, every second one from 60 on

    def test_validations_change_no_bit_of_a_training(self):
        self.expect_validations_change_nothing("--data", self.photos, "--height", 16, "--batch", 4, "--validation", 4, "--steps", 4)
        self.expect_validations_change_nothing("--data", self.digits, "--model", "mlp", "--hidden", 16, "--steps", 4)

    def test_validations_see_no_augmentation_and_the_whole_split(self):
        for data, ways in ((self.digits, ("none", "affine", "crop")), (self.photos, ("none", "photo"))):
            self.expect_seen_in_training_alone("--data", data, "--height", 16, "--validation", 7, ways=[("--augment", way) for way in ways])
        self.expect_validations_by_any_batch("--data", self.digits, batches=(10, 1, 7, 20))

    def test_validations_see_neither_augmentation_nor_dropout(self):
        flags = ("--data", self.digits, "--model", "mlp", "--hidden", 16)
        self.expect_validations_alike(*flags, "--dropout", 0.5, "--augment", "affine")
        self.expect_seen_in_training_alone(*flags, ways=[("--dropout", dropout, "--augment", way)
                                                         for dropout in (0, 0.5) for way in ("none", "affine", "crop")])

    def test_other_images_validate_than_train(self):
        pixels, labels = idx(80)
        wrong = bytes((i + 1) % 4 for i in range(20))
        split = self.dataset("split", pixels, labels[:-20] + wrong)
        apart = self.dataset("held", idx(20)[0], idx(20)[1][:8] + wrong)
        for name, contents in zip(("images-idx3", "labels-idx1"), idx(60)):
            self.write(f"held/train-{name}-ubyte", contents)
        for data in (split, apart):
            figures = self.figures("--data", data, "--epochs", 12, "--augment", "none")
            self.assertLess(figures["train_loss"], 0.7)
            self.assertLess(figures["val_accuracy"], 0.2)
            self.assertGreater(figures["val_loss"], math.log(4))
        photos = self.folder_of("six", ("ash", "oak"), 3)
        others = {f"{photos}/{name}/{i}.png": png(3 + label, i, 24 + i, 30)
                  for label, name in enumerate(("ash", "oak")) for i in range(3)}
        self.expect_each_image_in_one_split(others, 2, "--data", photos, "--validation", 2, "--batch", 2, "--height", 16)

    def test_an_epoch_takes_whole_batches(self):
        for flags, steps in ((("--batch", 7), 16), (("--batch", 60), 2), (("--batch", 31), 2), (("--batch", 7, "--accumulate", 3), 5)):
            self.assertEqual(self.figures("--data", self.digits, *flags)["steps"], steps)

    def test_the_learning_rate_in_the_log_is_the_one_that_is_applied(self):
        self.expect_logged_rates_are_applied("--data", self.digits, optimizers=("sgd",))

    def test_a_stopped_and_resumed_training_is_the_uninterrupted_one(self):
        file = self.path("stopped.safetensors")
        flags = ("--data", self.digits, "--workers", 1)
        whole = self.figures(*flags)
        self.figures(*flags, "--stop-after", 5, "--save", file)
        resumed = self.figures(*flags, "--resume", file)
        for figure in ("state_sha256", "val_loss", "val_accuracy", "steps"):
            self.assertEqual(resumed[figure], whole[figure])
        self.expect_predicted(resumed)
        self.fails(1, [*flags, "--model", "vgg11", "--resume", file], "stopped.safetensors", "channels 1, not 3")
        self.fails(1, [*flags, "--augment", "none", "--resume", file], '"affine", not "none"')

    def test_neither_recomputing_nor_workers_change_a_bit(self):
        plain = self.figures("--data", self.digits, "--workers", 1)
        for flags in (["--recompute", "cheap"], ["--recompute", "blocks"], ["--workers", 0]):
            other = self.figures("--data", self.digits, *flags)
            self.assertEqual(other["state_sha256"], plain["state_sha256"])
            self.assertLessEqual(other["peak_bytes_allocated"], plain["peak_bytes_allocated"])
            self.expect_predicted(other)

    def test_eight_micro_batches_take_what_two_take(self):
        flags = ("--data", self.digits, "--batch", 5, "--steps", 2)
        two, eight = (self.figures(*flags, "--accumulate", count) for count in (2, 8))
        self.assertEqual(eight["peak_bytes_allocated"], two["peak_bytes_allocated"])
        self.expect_predicted(two)
        self.expect_predicted(eight)

    def test_other_numbers_are_predicted_too(self):
        for flags in (["--dtype", "bf16"], ["--dtype", "f16"], ["--optimizer", "sgd"], ["--validate-every", 3],
                      ["--batch", 7, "--label-smoothing", 0.1]):
            self.expect_predicted(self.figures("--data", self.digits, "--epochs", 1, *flags))

    def test_photos_in_folders(self):
        flags = ("--height", 16, "--epochs", 1, "--batch", 6)
        figures = self.figures("--data", self.photos, *flags, "--validation", 6, "--pictures", self.path("named"))
        self.assertEqual(figures["steps"], 3)
        for name in sorted(os.listdir(self.path("named")))[:6]:
            self.assertRegex(name, r"^0\d_is_(ash|oak|yew)_seen_as_(ash|oak|yew)\.png$")
        self.expect_predicted(figures)
        os.makedirs(self.path("apart"))
        shutil.copytree(self.photos, self.path("apart/train"))
        self.folder_of("apart/val", ("ash", "yew"), 2)
        printed = self.succeeds("--data", self.path("apart"), *flags, "--validation", 4)
        self.assertIn("24 images of 3 classes to train on, 4 of val to validate; resized to 16 wide, 16 high", printed)

    def test_the_training_files_are_taken_where_they_are(self):
        both = self.dataset("both", *idx(30))
        images, labels = idx(40)
        self.write("both/train-images-idx3-ubyte", images)
        self.fails(1, ["--data", both], "train-labels")
        self.write("both/train-labels-idx1-ubyte", labels)
        self.assertIn("40 images of train-* to train on, 20 of t10k-* to validate", self.succeeds("--data", both))
        self.fails(1, ["--data", both, "--validation", 31], "--validation 31", "30 images")
        self.write("both/train-images-idx3-ubyte", idx(40, side=10)[0])
        self.fails(1, ["--data", both], "12 wide, 12 high", "10 wide, 10 high")

    def test_cifar(self):
        os.makedirs(self.path("cifar"))
        for part in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
            self.write(f"cifar/{part}.bin", cifar(10))
        printed = self.succeeds("--data", self.path("cifar"), "--validation", 10, "--epochs", 1)
        self.assertIn("50 images of data_batch_* to train on, 10 of test_batch to validate\n", printed)
        dry = ("--data", self.path("cifar"), "--validation", 10, "--model", "resnet18", "--height", 16, "--device", "dry")
        self.assertIn("; resized to 32 wide, 32 high, since resnet18 needs at least 32 each way\n", self.succeeds(*dry))
        self.fails(1, ["--data", self.path("cifar"), "--validation", 10, "--classes", 9], "--classes 9", "has 10 classes")
        self.write("cifar/data_batch_3.bin", bytes([10]) + bytes(3072))
        self.fails(1, ["--data", self.path("cifar")], "data_batch_3.bin", "label 10")

    def test_models_are_rehearsed_without_data(self):
        dry = ("--device", "dry", "--batch", 2, "--height", 64)
        for model, parameters in (("resnet18", 11_689_512), ("resnet50", 25_557_032), ("vgg11_bn", 132_868_840)):
            figures = self.figures(*dry, "--model", model)
            self.assertEqual(figures["parameters"], parameters)  # torchvision's
            self.assertLess(self.figures(*dry, "--model", model, "--recompute", "cheap")["peak_bytes_predicted"],
                            figures["peak_bytes_predicted"])
        gpu = self.figures("--device", "dry", "--model", "resnet50", "--height", 224, "--width", 224, "--classes", 1000,
                           "--batch", 64, "--gpu-memory", "11GiB")
        self.assertGreater(gpu["peak_bytes_predicted"], 5e9)
        small = ("--device", "dry", "--model", "resnet50", "--batch", 64, "--gpu-memory", "3GiB")
        advice = ADVICE.search(self.fails(3, small, "out of memory"))
        self.assertEqual(advice["batch"], "64", "batch norm keeps it")
        self.assertLess(self.figures(*small, *advice["flags"].split())["peak_bytes_reserved_predicted"], (3 << 30) - (600 << 20))

    def test_given_weights_are_the_beginning(self):
        file = write_zeros(self.path("resnet18.safetensors"), resnet18_shapes(1000))
        base = ("--data", self.digits, "--steps", 0)
        flags = (*base, "--model", "resnet18")
        with_head = self.figures(*flags, "--from", file, "--classes", 1000)
        self.assertAlmostEqual(with_head["val_loss"], math.log(1000), places=5)  # all weights are 0
        printed = self.succeeds(*flags, "--from", file)
        self.assertIn("resized to 32 wide, 32 high, since resnet18 needs at least 32 each way; ", printed)
        self.assertIn(f"the head stays as initialised: that of {file} is not for 10 classes", printed)
        self.fails(1, [*base, "--model", "resnet34", "--from", file], file, "layer1.2.", "another model")
        self.fails(1, [*base, "--model", "vgg11", "--from", file], file, "classifier.0.weight", "differ: 122", "another model")
        deeper = write_zeros(self.path("more.safetensors"), resnet18_shapes(10) | {"layer5.weight": [1]})
        self.fails(1, [*flags, "--from", deeper], deeper, "layer5.weight", "another model")
        self.fails(1, [*flags, "--from", self.write("text", "no weights")], "text")

    def test_data_that_cannot_be_used(self):
        os.makedirs(self.path("empty/none"))
        self.fails(1, ["--data", self.path("missing")], "missing", "no such folder")
        self.fails(1, ["--data", self.path("empty/none")], "none", "no folder in it")
        self.fails(1, ["--data", self.path("empty")], "none", "no PNG or JPEG")
        self.fails(1, ["--data", self.digits, "--classes", 3], "t10k-labels", "3")
        self.fails(1, ["--data", self.photos, "--classes", 2, "--validation", 2], "--classes 2", "has 3 classes")
        self.fails(1, ["--data", self.digits, "--validation", 80], "--validation 80", "none is left")
        self.fails(1, ["--data", self.digits, "--batch", 70], "--batch 70", "60 images to train on")
        broken = self.folder_of("broken", ("a", "b"), 4)
        self.write("broken/b/1.png", png(1, 1, 24, 30)[:200])
        self.fails(1, ["--data", broken, "--validation", 1, "--batch", 7, "--height", 8], "broken/b/1.png")

    def test_an_image_that_cannot_be_read_costs_no_step_before_it(self):
        classes = ("ash", "oak", "yew")
        self.folder_of("damaged/train", classes, 8)
        self.folder_of("damaged/val", classes, 2)
        file = self.path("before.safetensors")
        flags = ("--data", self.path("damaged"), "--height", 16, "--batch", 2, "--validate-every", 5, "--validation", 6)
        whole = self.figures(*flags)
        for name, step in (("train/oak/3.png", "[1-9]"), ("val/yew/1.png", "5")):
            with open(self.path(f"damaged/{name}"), "rb") as image:
                sound = image.read()
            self.write(f"damaged/{name}", damaged_inside(sound))
            run = self.run_program(*flags, "--save", file)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (1, 1), run.stderr)
            self.assertIn(name, run.stderr)
            self.assertIn("; --skip-bad-images uses another in its place", run.stderr)
            self.assertRegex(run.stdout, f"saved to {file} after step {step}; --resume continues from there\n")
            self.write(f"damaged/{name}", sound)
            self.runs.clear()
            self.assertEqual(self.figures(*flags, "--resume", file)["state_sha256"], whole["state_sha256"])

    def test_of_many_bad_images_some_are_named(self):
        photos = self.folder_of("mostly", ("ash", "oak"), 12)
        for i in range(12):
            with open(self.path(f"mostly/oak/{i}.png"), "r+b") as image:
                image.truncate(200)
        printed = self.succeeds("--data", photos, "--height", 16, "--batch", 3, "--validation", 6, "--steps", 1, "--skip-bad-images")
        self.assertIn("skipping 12 bad images and using others instead:\n", printed)
        self.assertEqual(printed.count(": damaged PNG"), 10)
        self.assertIn("\n  and 2 more\n", printed)

    def test_cut_files_are_known_before_the_training_and_skipped_alike_each_time(self):
        photos = self.folder_of("partly", ("ash", "oak", "yew"), 8)
        cut, damaged = (self.path(f"partly/oak/{name}.png") for name in (3, 5))
        with open(damaged, "rb") as image:
            inside = damaged_inside(image.read())
        self.write(damaged, inside)
        with open(cut, "r+b") as image:
            image.truncate(200)
        flags = ("--data", photos, "--height", 16, "--batch", 3, "--validation", 3, "--epochs", 2)
        line = self.fails(1, flags, "oak/3.png", "1 of 24 images can't be used; --skip-bad-images")
        self.assertNotIn("step", line)
        skipping = (*flags, "--skip-bad-images")
        printed = self.succeeds(*skipping)
        self.assertRegex(printed, "skipping 1 bad image and using others instead:\n  .*oak/3.png: damaged PNG")
        self.assertRegex(printed, "skipping 1 bad image and using others instead:\n  .*oak/5.png: damaged PNG")
        whole = self.figures(*skipping)
        self.assertEqual((whole["skipped_images"], whole["steps"]), (2, 14))
        self.expect_predicted(whole)
        file = self.path("partly.safetensors")
        self.succeeds(*skipping, "--stop-after", 5, "--save", file)
        resume = ("--resume", file, "--batch", 3, "--validation", 3)
        self.assertEqual(self.figures(*resume, "--workers", 0)["state_sha256"], whole["state_sha256"])
        os.remove(cut)
        self.fails(1, resume, "it was trained on 21 samples, but there are 20 now; --changed-data continues")
        self.fails(2, [*flags, "--changed-data"], "--changed-data", "--resume")
        changed = self.figures(*resume, "--changed-data")
        self.assertEqual(changed["steps"], 12)  # of six batches in each epoch
        self.assertNotEqual(changed["state_sha256"], whole["state_sha256"])

    def test_a_training_that_a_bad_image_ended_goes_on_without_it(self):
        photos = self.folder_of("ended", ("ash", "oak"), 10)
        with open(self.path("ended/oak/5.png"), "rb") as image:
            inside = damaged_inside(image.read())
        self.write("ended/oak/5.png", inside)
        file = self.path("ended.safetensors")
        flags = ("--data", photos, "--height", 16, "--batch", 3, "--validation", 2, "--save", file)
        self.fails(1, flags, "ended/oak/5.png", "--skip-bad-images uses another in its place")
        printed = self.succeeds("--resume", file, "--batch", 3, "--validation", 2, "--skip-bad-images")
        self.assertIn("ended/oak/5.png: damaged PNG", printed)
        self.assertIn("step 12/12", printed)

    def test_a_validation_of_one_class_says_so(self):
        os.makedirs(self.path("onesided"))
        shutil.copytree(self.photos, self.path("onesided/train"))
        self.folder_of("onesided/val", ("yew",), 2)
        flags = ("--data", self.path("onesided"), "--height", 16, "--batch", 6, "--validation", 2, "--steps", 1)
        self.assertRegex(self.succeeds(*flags), r"accuracy \d+\.\d\d%; only class yew occurs in it\n")
        for part in ("train", "val"):
            os.rename(self.path(f"onesided/{part}/yew"), os.fsencode(self.path(f"onesided/{part}/")) + b"y\xe9\n")
        self.assertEqual(self.figures(*flags)["val_note"], "only class y\ufffd? occurs in it")

    def test_images_are_turned_as_exif_says(self):
        def turned(png_bytes, orientation):
            entry = struct.pack(">HHIHH", 0x112, 3, 1, orientation, 0)
            exif = b"eXIfMM\0*" + struct.pack(">IH", 8, 1) + entry + bytes(4)
            chunk = struct.pack(">I", len(exif) - 4) + exif + struct.pack(">I", zlib.crc32(exif))
            return png_bytes[:33] + chunk + png_bytes[33:]

        self.folder_of("plain", ("ash", "oak"), 6)
        for label, name in enumerate(("ash", "oak")):
            os.makedirs(self.path(f"exif/{name}"))
            for i in range(6):
                self.write(f"exif/{name}/{i}.png", turned(png(label, i, 24 + i, 30), 3))
        flags = ("--height", 16, "--batch", 5, "--validation", 2, "--augment", "none", "--steps", 2, "--data")
        plain = self.figures(*flags, self.path("plain"))
        self.assertNotEqual(self.figures(*flags, self.path("exif"))["state_sha256"], plain["state_sha256"])
        stored = self.figures(*flags, self.path("exif"), "--orientation", "stored")
        self.assertEqual(stored["state_sha256"], plain["state_sha256"])
        self.fails(2, [*flags, self.photos, "--orientation", "auto"], "--orientation")

    def test_wrong_usage(self):
        for flags in (["--model", "resnet19"], ["--height", 0], ["--lr", "nan"], ["--augment", "all"], ["--bogus"]):
            self.fails(2, ["--data", self.digits, *flags], flags[0])
        self.fails(2, [], "--data is required")
        self.fails(2, ["--data", self.digits, "--model", "vgg16", "--min-lr", 0.0005], "--min-lr 0.0005", "0.0001")
        self.fails(2, ["--data", self.digits, "--from", self.path("x")], "--from", "--model")


if __name__ == "__main__":
    unittest.main()
