"""Every flag of every program, changed alone where a training is resumed: what decides about the steps so far is refused by its
name, all else is named in the line that says what was given anew. A flag that is not in these tables fails the test."""
import os
import re
import struct
import unittest
import zlib

from idx_files import images, labels
from program import ProgramCase, words

NAMED = None  # in the line of what was given anew
REFUSED = ""  # in whatever words: it needs other flags, or other data

EACH = {
    "--seed": (2, "seed 1337, not 2"), "--dtype": ("bf16", 'dtype "f32", not "bf16"'), "--batch": (3, "batch size 2"),
    "--accumulate": (2, "accumulate 1, not 2"), "--optimizer": ("sgd", "sgd"), "--ema-decay": (0.5, "average none, not 0.5"),
    "--shard": ("state", NAMED), "--lr": (0.5, NAMED), "--min-lr": (1e-4, NAMED), "--warmup": (1, NAMED),
    "--weight-decay": (0.5, NAMED), "--beta2": (0.5, NAMED), "--momentum": (0.5, NAMED), "--max-grad-norm": (0.25, NAMED),
    "--steps": (7, NAMED), "--validate-every": (2, NAMED), "--patience": (1, REFUSED),
    "--tf32": ((), NAMED), "--nondeterministic": ((), NAMED), "--scratch-budget": ("64MiB", NAMED)}
TEXT = {
    "--bytes": ((), "vocabulary"), "--tokens": ("u16", REFUSED), "--token-names": ("names", REFUSED),
    "--layers": (3, "layers 2, not 3"), "--width": (32, "width 16, not 32"), "--block": (8, "block 12, not 8"),
    "--dropout": (0.5, "dropout 0.25, not 0.5"), "--sample": (3, NAMED)}
SAMPLING = {"--temperature": (0.5, NAMED), "--top-k": (2, NAMED)}
IMAGES = {"--epochs": (3, NAMED), "--skip-bad-images": ((), NAMED), "--orientation": ("stored", NAMED)}


def png(rows, columns, shade, colors):
    def chunk(kind, contents):
        return struct.pack(">I", len(contents)) + kind + contents + struct.pack(">I", zlib.crc32(kind + contents))

    pixels = b"".join(b"\0" + bytes(shade(column) for column in range(columns) for _ in range(colors)) for _ in range(rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 0 if colors == 1 else 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b""))


class ChangedFlags:
    """`begun`: the training's flags; `changes`: by flag, another value and what comes of it."""

    def test_each_is_refused_or_named(self):
        file = self.path("begun.safetensors")
        self.succeeds(*self.begun, "--batch", 2, "--warmup", 3, "--threads", 1, "--stop-after", 1, "--save", file)
        self.assertIn("with its flags\n", self.succeeds("--resume", file, "--stop-after", 0))
        ours = self.succeeds("--help").split("Of this run alone")[0]
        flags = set(re.findall(r"^  (--[a-z0-9-]+)", ours, re.M)) - {"--resume", "--version"}
        if "--recompute" in flags:
            flags.remove("--recompute")
            self.expect(file, "--recompute", self.way, NAMED)
        self.assertEqual(flags, set(self.changes))
        for flag, (value, line) in self.changes.items():
            with self.subTest(flag=flag):
                self.expect(file, flag, value, line)

    def expect(self, file, flag, value, line):
        given = (flag,) if value == () else (flag, value)
        run = self.run_program("--resume", file, "--stop-after", 0, *given)
        if line is NAMED:
            self.assertEqual((run.returncode, run.stderr), (0, ""), flag)
            self.assertRegex(run.stdout, f"(?m)^resuming .*; given again: .*{flag} ")
            return
        self.assertIn(run.returncode, (1, 2), (flag, run.stdout))
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertIn(line, run.stderr)


class Gpt(ChangedFlags, ProgramCase):
    program = "train_gpt"
    way = "blocks"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.begun = ("--data", cls.write("text.txt", words(200)), "--layers", 2, "--width", 16, "--heads", 2, "--block", 12,
                     "--dropout", 0.25, "--steps", 3)
        cls.changes = {**EACH, **TEXT, **SAMPLING, "--data": (cls.write("other.txt", words(200).replace("e", "x")), "vocabulary"),
                       "--vocabulary": (9, REFUSED), "--heads": (4, "heads 2, not 4"), "--positions": (99, "positions 12, not 99"),
                       "--half-residual": ((), REFUSED), "--no-bias": ((), "bias"), "--activation": ("relu", "activation")}


class Recurrent(ChangedFlags, ProgramCase):
    program = "train_text"
    way = "layers"
    model = ("--model", "lstm")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.begun = ("--data", cls.write("text.txt", words(200)), *cls.model, "--layers", 2, "--width", 16, "--heads", 2,
                     "--block", 12, "--dropout", 0.25, "--steps", 3)
        cls.changes = {**EACH, **TEXT, **cls.own(),
                       "--data": (cls.write("other.txt", words(200).replace("e", "x")), "vocabulary"),
                       "--vocabulary": (cls.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nall\n"), "vocabulary"),
                       "--case": ("keep", REFUSED)}

    @classmethod
    def own(cls):
        return {**SAMPLING, "--model": ("gru", 'kind "lstm", not "gru"'), "--heads": (4, NAMED), "--positions": (99, REFUSED),
                "--hidden": (8, REFUSED)}


class Pieces(Recurrent):
    """Of words, as one file has them: what they are cut into is data, too."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nall\nthe\n"
        cls.begun = (*cls.begun, "--vocabulary", cls.write("pieces.txt", pieces))
        cls.changes = {**cls.changes, "--data": (cls.changes["--data"][0], NAMED), "--case": ("keep", 'case none, not "keep"'),
                       "--bytes": ((), REFUSED)}


class Masked(Recurrent):
    model = ("--model", "bert")
    way = "cheap"

    @classmethod
    def own(cls):
        return {"--model": ("gru", 'kind "bert", not "gru"'), "--width": (32, "hidden 64, not 128"), "--heads": (4, "heads 2, not 4"),
                "--positions": (99, "positions 12, not 99"), "--hidden": (8, "hidden 64, not 8"), "--temperature": (0.5, REFUSED),
                "--top-k": (2, REFUSED)}


class Classifier(ChangedFlags, ProgramCase):
    program = "train_images"
    way = "cheap"
    model = ("--model", "mlp", "--layers", 1, "--hidden", 8, "--dropout", 0.25)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("digits", "others"):
            os.mkdir(cls.path(name))
            cls.write(f"{name}/t10k-images-idx3-ubyte", images(20 + len(name), 12, 12))
            cls.write(f"{name}/t10k-labels-idx1-ubyte", labels(20 + len(name)))
        cls.begun = ("--data", cls.path("digits"), *cls.model, "--augment", "none", "--validation", 6, "--steps", 3, "--workers", 0)
        cls.changes = {**EACH, **IMAGES, **cls.own(), "--data": (cls.path("others"), NAMED), "--classes": (11, "classes 10, not 11"),
                       "--height": (16, "height 12, not 16"), "--width": (16, "height 12, not 16"),
                       "--validation": (5, "20 samples, but there are 21"), "--augment": ("affine", 'augment "none", not "affine"'),
                       "--label-smoothing": (0.25, "label_smoothing 0.0, not 0.25")}

    @classmethod
    def own(cls):
        return {"--model": ("small", REFUSED), "--layers": (2, "layers 1, not 2"), "--hidden": (9, "hidden 8, not 9"),
                "--dropout": (0.5, "dropout 0.25, not 0.5")}


class Residual(Classifier):
    model = ("--model", "small")

    @classmethod
    def own(cls):
        return {"--model": ("mlp", 'model "small", not "mlp"'), "--layers": (5, REFUSED), "--hidden": (9, REFUSED),
                "--dropout": (0.5, REFUSED)}


class Clouds(ChangedFlags, ProgramCase):
    program = "train_segmentation"
    way = "none"
    begun = ("--base-width", 2, "--height", 32, "--width", 32, "--clouds", 8, "--validation", 2, "--classes", 3, "--steps", 3)
    model = {"--model": ("net", REFUSED), "--base-width": (4, "base_width 2, not 4"), "--bilinear": ((), "bilinear false, not true"),
             "--height": (48, "height 32, not 48"), "--width": (48, "width 32, not 48"), "--flips": ("none", 'flips "both", not "none"'),
             "--crop": (0.5, "crop 1.0, not 0.5")}
    changes = {**EACH, **IMAGES, **model, "--classes": (4, "classes 3, not 4"), "--clouds": (9, "8 samples, but there are 9"),
               "--noise": (2, "noise 0.5, not 2.0"), "--validation": (3, NAMED), "--data": ("none", REFUSED),
               "--images": ("none", REFUSED), "--masks": ("none", REFUSED), "--mask-suffix": ("_mask", NAMED),
               "--mask-values": ("0,255", REFUSED), "--ignore": (9, NAMED), "--skip-bad-images": ((), REFUSED)}


class Masks(ChangedFlags, ProgramCase):
    program = "train_segmentation"
    way = "none"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("scans", "other"):
            for part, colors in (("images", 3), ("masks", 1)):
                os.makedirs(cls.path(f"{name}/{part}"))
                for i in range(8):
                    shade = [lambda column, i=i: 9 * i + column, lambda column, i=i: int(column > i)][colors == 1]
                    cls.write(f"{name}/{part}/{i}.png", png(36, 40, shade, colors))
        cls.begun = ("--data", cls.path("scans"), "--base-width", 2, "--height", 32, "--width", 32, "--validation", 2, "--classes", 2,
                     "--steps", 3, "--workers", 0)
        cls.changes = {**EACH, **IMAGES, **Clouds.model, "--classes": (3, "classes 2, not 3"), "--data": (cls.path("other"), NAMED),
                       "--images": ("none", REFUSED), "--masks": ("none", REFUSED), "--mask-suffix": ("_mask", REFUSED),
                       "--mask-values": ("1,0", 'mask_values "", not "1,0"'), "--ignore": (1, "ignore -1, not 1"),
                       "--clouds": (9, NAMED), "--noise": (2, NAMED), "--validation": (3, "6 samples, but there are 5")}


class Detection(ChangedFlags, ProgramCase):
    program = "train_detection"
    way = "cheap"
    begun = ("--height", 64, "--width", 64, "--images", 4, "--validation", 2, "--steps", 3, "--pyramid", 8, "--hidden", 16,
             "--regions", 8, "--objects", 3)
    changes = {**EACH, **IMAGES, "--data": ("none", REFUSED), "--annotations": ("none", REFUSED), "--labels": ("ids", REFUSED),
               "--skip-bad-images": ((), REFUSED), "--model": ("fasterrcnn", 'model "maskrcnn", not "fasterrcnn"'),
               "--backbone": ("resnet50", 'backbone "resnet18", not "resnet50"'), "--pyramid": (16, "pyramid 8, not 16"),
               "--hidden": (8, "hidden 16, not 8"), "--height": (96, "height 64, not 96"), "--width": (96, "width 64, not 96"),
               "--classes": (5, "classes 4, not 5"), "--images": (5, "4 samples, but there are 5"), "--validation": (3, NAMED),
               "--objects": (2, "objects 3, not 2"), "--regions": (16, "regions 8, not 16")}


if __name__ == "__main__":
    unittest.main()
