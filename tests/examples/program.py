"""What the tests of the example programs share: running them, and what they promise about failing.

HEADROOM_EXAMPLES_DIR names the folder with the programs; ctest sets it.
"""
import json
import math
import os
import random
import re
import resource
import subprocess
import tempfile
import unittest

EXAMPLES = os.environ.get("HEADROOM_EXAMPLES_DIR", "build/release/examples")
SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SHARDS = int(os.environ.get("GTEST_TOTAL_SHARDS", "1"))  # where all is slower, a part of the cases, as of programs of GoogleTest
SHARD = int(os.environ.get("GTEST_SHARD_INDEX", "0"))

# What a program that is refused memory says to do.
ADVICE = re.compile(r"it fits with (?P<flags>--budget \d+(?: --split-batch)?)(?P<plain> and without --graphs)?(?: in place of [a-z -]+)?: "
                    r"(?P<accumulate>\d+) micro-batch(?:es)? of (?P<batch>\d+) samples?, (?:split from \d+: draws differ, )?(?:[a-z]+, )?(?P<replayed>\d+) ops? run again "
                    r"in a step, (?P<reserved>\d+) bytes reserved(?:, [\d.]+% faster than keeping all)?(?:, for the last of \d+ kinds of micro-batch)?"
                    r"(?P<another>; batch norm, or a loss over pairs, then sees fewer samples at once, which changes the training)?; or with (?P<more>.*)$")


def shard(number):
    """A class whose cases share what they run, and so a shard."""
    def mark(case):
        case.shard = number
        return unittest.skipUnless(number % SHARDS == SHARD, "another shard has it")(case)

    return mark


def drawn():
    """What draws as HEADROOM_TEST_SEED says: from a committed number, another one, or `random` ones (tests/support/seed.hpp)."""
    text = os.environ.get("HEADROOM_TEST_SEED") or "20261129"
    seed = random.randrange(1 << 32) if text == "random" else int(text)
    print(f"HEADROOM_TEST_SEED={seed}", flush=True)
    return random.Random(seed)


def words(count):
    """A text of so many words of three letters, of which some come more often than others."""
    return " ".join(f"{'aeiou'[i * i % 5]}{'bcdfg'[i * 7 % 5]}{'lmnrst'[i * i * i % 6]}" for i in range(count))


def rest_of(terminal):
    """What a program writes to a terminal until it has ended; closes this side of it."""
    output = b""
    try:
        while chunk := os.read(terminal, 4096):
            output += chunk
    except OSError:  # the other side is closed
        pass
    os.close(terminal)
    return output


def data_file(name):
    """A file of the data folder beside the sources, or named by HEADROOM_DATA; None if it is not there."""
    path = os.path.join(os.environ.get("HEADROOM_DATA", os.path.join(SOURCE, "..", "shared", "data")), name)
    return path if os.path.exists(path) else None


class ProgramCase(unittest.TestCase):
    """A test case of one program, with a folder of its own for files."""

    program = ""
    flags = ()
    shard = None

    def setUp(self):
        number = unittest.defaultTestLoader.getTestCaseNames(type(self)).index(self._testMethodName)
        if self.shard is None and number % SHARDS != SHARD:
            self.skipTest("another shard has it")

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="headroom-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = scratch.name
        cls.runs = {}

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def write(cls, name, contents):
        with open(cls.path(name), "wb") as file:
            file.write(contents if isinstance(contents, bytes) else contents.encode())
        return cls.path(name)

    @classmethod
    def command(cls, *flags):
        """The class's pairs of flags and values, but for those that `flags` say themselves."""
        pairs = zip(cls.flags[::2], cls.flags[1::2])
        defaults = [word for name, value in pairs if name not in flags for word in (name, value)]
        return [os.path.join(EXAMPLES, cls.program), *defaults, *map(str, flags)]

    @classmethod
    def run_program(cls, *flags, largest_file=None):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

        return subprocess.run(cls.command(*flags), capture_output=True, text=True, errors="surrogateescape", check=False,
                              preexec_fn=limit if largest_file is not None else None)

    def succeeds(self, *flags):
        """What the program printed."""
        run = self.run_program(*flags)
        self.assertEqual((run.returncode, run.stderr), (0, ""), (flags, run.stdout))
        return run.stdout

    def figures(self, *flags):
        """The JSON summary of a run; equal flags run once."""
        if flags not in self.runs:
            file = self.path("figures.json")
            self.succeeds(*flags, "--json", file)
            with open(file, encoding="utf-8") as stream:
                self.runs[flags] = json.load(stream)
        return self.runs[flags]

    def fails(self, status, flags, *parts, largest_file=None):
        """One line on stderr, from the program, that holds all `parts`; returns it. More lines only with status 3."""
        run = self.run_program(*flags, largest_file=largest_file)
        self.assertEqual(run.returncode, status, (flags, run.stderr))
        lines = run.stderr.splitlines()
        self.assertTrue(run.stderr.startswith(f"{self.program}: "), run.stderr)
        self.assertTrue(len(lines) > 5 if status == 3 else len(lines) == 1, run.stderr)
        for part in parts:
            self.assertIn(part, lines[0])
        return lines[0]

    def expect_validations_change_nothing(self, *flags):
        """With and without validations in between, a training comes to the same state and the same figures."""
        with_them, without = (self.figures(*flags, "--validate-every", every) for every in (1, 0))
        for name in ("state_sha256", "train_loss", "val_loss"):
            self.assertIsNotNone(with_them[name])
            self.assertEqual(with_them[name], without[name], name)

    def logged(self, *flags):
        """The lines of a run's log."""
        file = self.path("log.jsonl")
        self.succeeds(*flags, "--log", file)
        with open(file, encoding="utf-8") as stream:
            return [json.loads(line) for line in stream]

    def expect_validations_alike(self, *flags):
        """Where the rate is 0, so that no parameter changes, all validations are equal."""
        lines = self.logged(*flags, "--lr", 0, "--min-lr", 0, "--steps", 3, "--validate-every", 1)
        lines = [line for line in lines if "validation/loss" in line]
        self.assertEqual([line.pop("step") for line in lines], [1, 2, 3])
        self.assertEqual(lines, 3 * [lines[0]])

    def expect_seen_in_training_alone(self, *flags, ways):
        """Each way of `ways`, flags that vary samples or drop values, trains otherwise, and none validates otherwise."""
        losses, states = ({self.figures(*flags, *way, "--steps", steps)[figure] for way in ways}
                          for steps, figure in ((0, "val_loss"), (4, "state_sha256")))
        self.assertEqual((len(losses), len(states)), (1, len(ways)))

    def expect_validations_by_any_batch(self, *flags, batches):
        """A validation counts every sample once, also in a last batch that is smaller. Losses are sums in f32 of parts that depend on
        the batch, of up to a thousand terms: within that many roundings."""
        first, *others = (self.figures(*flags, "--steps", 0, "--batch", batch) for batch in batches)
        for other in others:
            self.assertAlmostEqual(other["val_loss"], first["val_loss"], delta=1000 * 2**-24 * first["val_loss"])
            for metric in ("val_accuracy", "mean_iou"):
                self.assertEqual(other.get(metric), first.get(metric))

    def expect_logged_rates_are_applied(self, *flags, optimizers=("adamw", "sgd")):
        """Each step leaves the state that one leaves whose rate is given as what the log says: the first step of the warm-up, its last
        one, and one of the fall behind it."""
        schedule = ("--lr", 0.03, "--min-lr", 0.01, "--warmup", 2, "--steps", 5)
        for optimizer in optimizers:
            training = (*flags, "--optimizer", optimizer)
            rates = [line["train/learning_rate"] for line in self.logged(*training, *schedule) if "train/loss" in line]
            fall = [0.02 + 0.01 * math.cos(math.pi * step / 3) for step in range(3)]
            for rate, expected in zip(rates, [0.01, 0.02, *fall], strict=True):
                self.assertAlmostEqual(rate, expected, places=12)
            for done in (0, 1, 3):
                file = self.path(f"after{done}_{optimizer}.safetensors")
                self.succeeds(*training, *schedule, "--stop-after", done, "--save", file)
                step = (*training, "--resume", file, "--stop-after", 1)
                state = self.figures(*step, *schedule)["state_sha256"]
                for factor in (1, 1.01):
                    rate = factor * rates[done]
                    given = self.figures(*step, "--lr", rate, "--min-lr", rate, "--warmup", 0, "--steps", 5)["state_sha256"]
                    self.assertEqual(given == state, factor == 1, (optimizer, done))

    def expect_each_image_in_one_split(self, others, validation, *flags):
        """Of the files, whose contents `others` exchanges, `validation` change what is validated, and the rest what an epoch trains."""
        def figures():
            self.runs.clear()
            return (self.figures(*flags, "--steps", 0)["val_loss"], self.figures(*flags, "--epochs", 1)["state_sha256"])

        loss, state = figures()
        held_out = 0
        for path, other in others.items():
            with open(path, "rb") as file:
                contents = file.read()
            self.write(path, other)
            changed_loss, changed_state = figures()
            self.write(path, contents)
            self.assertNotEqual(changed_loss != loss, changed_state != state, path)
            held_out += changed_loss != loss
        self.assertEqual(held_out, validation)

    def expect_predicted(self, figures):
        """What a dry run said beforehand is what was measured, to the byte."""
        self.assertGreater(figures["peak_bytes_allocated"], figures["resident_bytes"])
        self.assertEqual(figures["peak_bytes_predicted"], figures["peak_bytes_allocated"])
        self.assertEqual(figures["peak_bytes_reserved_predicted"], figures["peak_bytes_reserved"])
