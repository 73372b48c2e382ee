"""Which data of images the programs read, and what they say of what they leave out or don't read."""
import os
import shutil
import struct
import unittest
import zlib

from program import ProgramCase
from train_images_test import cifar, idx, png


def grey16(value, side=8):
    """A PNG of 16-bit grey, all of that value."""
    def chunk(kind, contents):
        return struct.pack(">I", len(contents)) + kind + contents + struct.pack(">I", zlib.crc32(kind + contents))

    rows = b"".join(b"\0" + struct.pack(">H", value) * side for _ in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 16, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class TrainImages(ProgramCase):
    program = "train_images"
    flags = ("--batch", "4", "--validation", "4", "--steps", "1", "--threads", "2", "--height", "16", "--device", "dry")

    @classmethod
    def photos(cls, name, contents=None, count=6):
        for label, of_class in enumerate(("ash", "oak")):
            os.makedirs(cls.path(f"{name}/{of_class}"))
            for i in range(count):
                cls.write(f"{name}/{of_class}/{i}.png", contents(label, i) if contents else png(label, i, 24 + i, 30))
        return cls.path(name)

    def test_digits_by_all_of_their_names(self):
        for name, ending in (("dashes", "-idx{}-ubyte"), ("dots", ".idx{}-ubyte")):
            os.makedirs(self.path(name))
            for part, count in (("train", 20), ("t10k", 8)):
                for kind, rank, contents in zip(("images", "labels"), (3, 1), idx(count)):
                    self.write(f"{name}/{part}-{kind}{ending.format(rank)}", contents)
            self.assertIn("20 images of train-* to train on, 4 of t10k-* to validate", self.succeeds("--data", self.path(name)))

    def test_cifar100(self):
        data = self.path("cifar100")
        os.makedirs(data)
        for part in ("train", "test"):
            records = cifar(10)
            self.write(f"cifar100/{part}.bin", b"".join(b"\7" + records[at:at + 3073] for at in range(0, len(records), 3073)))
        self.write("cifar100/fine_label_names.txt", "".join(f"kind{i}\n" for i in range(100)))
        flags = ("--data", data, "--device", "cpu", "--pictures", self.path("seen"))
        self.assertIn("10 images of train.bin to train on, 4 of test.bin to validate", self.succeeds(*flags))
        self.assertRegex(sorted(os.listdir(self.path("seen")))[0], r"^01_is_kind0_seen_as_kind\d+\.png$")

    def test_versions_of_cifar_that_are_not_read_are_named(self):
        for name, files, what, archive in (
                ("python10", ("data_batch_1", "batches.meta"), "CIFAR-10's Python files", "cifar-10-binary.tar.gz"),
                ("python100", ("train", "test", "meta"), "CIFAR-100's Python files", "cifar-100-binary.tar.gz"),
                ("matlab", ("data_batch_1.mat",), "CIFAR-10's Matlab files", "cifar-10-binary.tar.gz")):
            os.makedirs(self.path(name))
            for file in files:
                self.write(f"{name}/{file}", b"\x80\2}q\1")
            self.fails(1, ["--data", self.path(name)], f"{name}: has {what}, which are not read", archive)

    def test_folders_that_are_left_out_are_said(self):
        plain = self.succeeds("--data", self.photos("photos"))
        self.assertIn("8 images of 2 classes to train on, 4 others of them to validate", plain)
        self.assertNotIn("left out", plain)
        hidden = self.path("photos/oak/.ipynb_checkpoints")
        os.makedirs(hidden)
        shutil.copy(self.path("photos/oak/1.png"), os.path.join(hidden, "1-checkpoint.png"))
        printed = self.succeeds("--data", self.path("photos"))
        self.assertIn(f"8 images of 2 classes to train on, 4 others of them to validate; 1 folder left out, such as {hidden}, a "
                      "hidden folder", printed)
        os.symlink(self.path("photos"), self.path("photos/oak/loop"))
        printed = self.succeeds("--data", self.path("photos"))
        self.assertIn("8 images of 2 classes to train on, 4 others of them to validate; 2 folders left out", printed)

    def test_kinds_of_jpeg_that_are_not_read_are_named_before_the_training(self):
        data = self.photos("jpegs")
        frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 12, 8, 8, 1) + b"\1\x11\0"
        scan = b"\xff\xda" + struct.pack(">HB", 8, 1) + b"\1\0\0\x3f\0"
        self.write("jpegs/oak/3.jpg", b"\xff\xd8" + frame + scan + b"\0\0\xff\xd9")
        self.fails(1, ["--data", data], "3.jpg: this kind of JPEG is not supported: it has 12 bits a sample", "1 of 13 images")

    def test_grey_of_16_bits_that_would_be_black_is_said(self):
        some = self.photos("some", lambda label, i: grey16(255 if label == 1 and i == 2 else 256 * (i + 1)))
        self.assertRegex(self.succeeds("--data", some), "1 of 12 images that were looked at have 16 bits of grey with no value "
                         "above 255, such as .*some/oak/2.png: they look black")
        self.fails(1, ["--data", self.photos("all", lambda label, i: grey16(20 * i + label + 1))],
                   "12 of 12 images that were looked at have 16 bits of grey with no value above 255", "save them with 8 bits")
        self.assertNotIn("16 bits", self.succeeds("--data", self.photos("none", lambda label, i: grey16(256 * (i + 1)))))

    def test_images_of_all_of_a_folder_are_looked_at(self):
        self.photos("late/train", lambda label, i: grey16(1 if label == 1 else 256), count=40)  # in this order
        self.photos("late/val", lambda label, i: grey16(256))
        self.assertIn("16 of 36 images that were looked at have 16 bits", self.succeeds("--data", self.path("late")))


if __name__ == "__main__":
    unittest.main()
