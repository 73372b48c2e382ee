"""What programs say where memory does not suffice: each statement is true, and each advice that is taken fits."""
import re
import unittest

from program import ADVICE, SHARDS, ProgramCase, shard

PAGE = 2 << 20
NOTHING = re.compile(r"(no plan needs less than|parameters and optimizer state alone take) \d+\.\d [kMG]B \((?P<least>\d+) bytes\): "
                     r"use a smaller model(?: or|, (?P<processes>\d+) processes \(mpirun -np \d+\) with (?P<flags>.*) in place of [a-z -]+, or) "
                     r"--memory-limit (?P<more>\d+)$")


class Refused(ProgramCase):
    """Of one program; `smaller` are flags of a smaller model, and `nothing` is the share of its peak in which no plan fits."""

    ways, smaller, batch_norm, batch, nothing = (), (), False, 0, 20

    def predicted(self, *flags):
        return self.figures("--device", "dry", *flags)

    def is_refused(self, *flags):
        return self.run_program("--device", "dry", *flags).returncode == 3

    def expect_true(self, limit, asked):
        """Whether anything fits."""
        flags = ("--recompute", asked)
        whole = self.predicted(*flags)
        run = self.run_program("--device", "dry", *flags, "--memory-limit", limit)
        self.assertEqual(run.returncode, 3, run.stderr)
        line = run.stderr.splitlines()[0]
        self.assertRegex(line, r"; the whole program needs \d+\.\d [kMG]B at once, at [a-z. 0-9_]+ \([a-z_0-9]+\)[;,] ")
        pieces = "which would fit if free memory were not fragmented" in line
        self.assertEqual(pieces, whole["peak_bytes_predicted"] <= limit // PAGE * PAGE)
        found = re.search(r"\nThe whole program without a limit: its peak is at .*\n  live at the peak +(\d+) ", run.stderr)
        self.assertEqual(int(found[1]), whole["peak_bytes_predicted"])
        fits, nothing = ADVICE.search(line), NOTHING.search(line)
        self.assertTrue(fits or nothing, line)
        enough = int(re.search(r"--memory-limit (\d+)$", line)[1])
        self.assertLessEqual(self.predicted(*flags, "--memory-limit", enough)["peak_bytes_reserved_predicted"], enough)
        if nothing:
            least = int(nothing["least"])
            self.assertGreater(least, limit // PAGE * PAGE)
            split = ("--split-batch",) if self.batch_norm else ()
            self.assertTrue(self.is_refused("--budget", least - PAGE, *split))
            if "no plan" in line:
                self.predicted("--budget", least, *split)
            self.predicted(*self.smaller, "--memory-limit", limit)
            if nothing["processes"]:
                ranks = self.predicted(*nothing["flags"].split(), "--ranks", nothing["processes"])["ranks"]
                self.assertLessEqual(max(rank["peak_bytes_reserved_predicted"] for rank in ranks), limit)
            return False
        self.assertIn(" in place of --memory-limit and --recompute: ", line)
        taken = self.predicted(*fits["flags"].split())
        self.assertEqual(taken["peak_bytes_reserved_predicted"], int(fits["reserved"]))
        self.assertLessEqual(int(fits["reserved"]), limit)
        self.assertEqual((str(taken["batch"]), str(taken["accumulate"])), (fits["batch"], fits["accumulate"]))
        self.assertEqual(taken["batch"] * taken["accumulate"], self.batch)
        self.assertEqual(bool(fits["another"]), self.batch_norm and taken["batch"] != self.batch)
        return True

    def test_every_statement_is_true_and_every_advice_fits(self):
        for asked in (self.ways[0], self.ways[-1]):
            peak = self.predicted("--recompute", asked)
            limits = [peak["peak_bytes_predicted"] * percent // 100 for percent in ((self.nothing, 60, 97) if SHARDS == 1 else (self.nothing, 97))]
            limits.append(peak["peak_bytes_reserved_predicted"] - 1)
            seen = set()
            for limit in limits:
                with self.subTest(asked=asked, limit=limit):
                    if limit < limits[-1] or self.is_refused("--recompute", asked, "--memory-limit", limit):
                        seen.add(self.expect_true(limit, asked))
            self.assertEqual(seen, {True, False})

    def test_a_plan_changes_no_bit(self):
        free = self.figures("--recompute", "none")
        limit = free["peak_bytes_reserved"] * 4 // 5
        line = self.fails(3, ("--recompute", "none", "--memory-limit", limit), "out of memory")
        taken = self.figures(*ADVICE.search(line)["flags"].split(), "--keep-batch")
        self.assertLessEqual(taken["peak_bytes_reserved"], limit)
        self.assertEqual(taken["state_sha256"], free["state_sha256"])
        self.expect_predicted(taken)

    def test_a_resumed_training_keeps_its_batch(self):
        file = self.path("stopped.safetensors")
        free = self.figures("--recompute", "none", "--stop-after", 1, "--save", file)
        limit = free["peak_bytes_reserved"] * 4 // 5
        resume = ("--resume", file, "--stop-after", 1)
        advice = ADVICE.search(self.fails(3, (*resume, "--memory-limit", limit), "out of memory"))
        self.assertEqual(advice["batch"], str(self.batch))
        self.figures(*resume, *advice["flags"].split())
        line = self.fails(3, (*resume, "--memory-limit", free["peak_bytes_reserved"] // 3), "out of memory")
        self.assertRegex(line, r"; a resumed training keeps its batch, and (no plan needs less than|parameters and .* take) .*: use --memory-limit \d+$")
        self.figures(*resume, "--memory-limit", line.split()[-1])


@shard(0)
class RefusedGpt(Refused):
    program = "train_gpt"
    ways = ("none", "cheap", "mlp", "blocks")
    smaller = ("--layers", 1, "--width", 8, "--heads", 1, "--batch", 1, "--accumulate", 10)
    batch = 10

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = cls.write("text.txt", "the quick brown fox jumps over the lazy dog. " * 60)
        cls.flags = ("--data", text, "--layers", "6", "--heads", "2", "--width", "96", "--block", "64", "--batch", "10",
                     "--steps", "2", "--threads", "2")


@shard(1)
class RefusedUNet(Refused):
    program = "train_segmentation"
    ways = ("none", "cheap", "blocks")
    smaller = ("--base-width", 1, "--batch", 1, "--accumulate", 8)
    batch_norm = True
    batch, nothing = 8, 14
    flags = ("--base-width", "6", "--height", "96", "--width", "96", "--clouds", "16", "--validation", "5", "--batch", "8",
             "--steps", "2", "--threads", "2")


del Refused

if __name__ == "__main__":
    unittest.main()
