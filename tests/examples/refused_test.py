"""What programs say where memory does not suffice: each statement is true, and each advice that is taken fits."""
import re
import unittest

from program import ProgramCase

FITS = re.compile(r"it fits with((?: --[a-z]+ \w+)+) and then reserves \d+\.\d [kMG]B \((\d+) bytes\)"
                  r"(; batch norm then sees fewer samples at once, which is another training)?; or with --memory-limit (\d+)$")
PAGE = 2 << 20
NOTHING = re.compile(r"no smaller micro-batch fits, whatever is recomputed: use a smaller model or --memory-limit (\d+)$")


class Refused(ProgramCase):
    """Of one program; `smaller` are flags of a smaller model."""

    recomputes, smaller, batch_norm, batch = (), (), False, 0

    def predicted(self, *flags):
        return self.figures("--device", "dry", *flags)

    def is_refused(self, *flags):
        return self.run_program("--device", "dry", *flags).returncode == 3

    def take(self, change, limit, asked):
        """Flags that the program named."""
        given = dict(zip(change[0::2], change[1::2]))
        self.assertLessEqual(set(given), {"--batch", "--accumulate", "--recompute"})
        self.assertNotEqual(given.get("--recompute"), asked, "in force already")
        batch = int(given.get("--batch", self.batch))
        self.assertEqual(batch * int(given.get("--accumulate", 1)), self.batch)
        flags = change if "--recompute" in given else (*change, "--recompute", asked)
        if batch != self.batch:  # which recomputation alone would have been better than
            for way in self.recomputes:
                self.assertTrue(self.is_refused("--memory-limit", limit, "--recompute", way))
        return self.predicted("--memory-limit", limit, *flags)

    def expect_true(self, limit, asked):
        """Which of the two advices it was."""
        flags = ("--recompute", asked)
        whole = self.predicted(*flags)
        run = self.run_program("--device", "dry", *flags, "--memory-limit", limit)
        self.assertEqual(run.returncode, 3, run.stderr)
        line = run.stderr.splitlines()[0]
        self.assertRegex(line, r"; in all \d+\.\d [kMG]B are needed at once, at [a-z. 0-9_]+ \([a-z_0-9]+\)[;,] ")
        pieces = "which would fit if free memory were in one piece" in line
        self.assertEqual(pieces, whole["peak_bytes_predicted"] <= limit // PAGE * PAGE)
        found = re.search(r"\nThe whole program, where nothing limits it: its peak is at .*\n  live at the peak +(\d+) ", run.stderr)
        self.assertEqual(int(found[1]), whole["peak_bytes_predicted"])
        fits, nothing = FITS.search(line), NOTHING.search(line)
        self.assertTrue(fits or nothing, line)
        enough = int(fits[4] if fits else nothing[1])
        self.assertLessEqual(self.predicted(*flags, "--memory-limit", enough)["peak_bytes_reserved_predicted"], enough)
        if fits:
            change = fits[1].split()
            taken = self.take(tuple(change), limit, asked)
            self.assertEqual(taken["peak_bytes_reserved_predicted"], int(fits[2]))
            self.assertEqual(bool(fits[3]), self.batch_norm and "--batch" in change)
        else:
            for batch in (1, self.batch):
                for way in self.recomputes:
                    self.assertTrue(self.is_refused("--memory-limit", limit, "--batch", batch, "--accumulate",
                                                    self.batch // batch, "--recompute", way))
            self.predicted(*self.smaller, "--memory-limit", limit)
        return "fits" if fits else "nothing"

    def test_every_statement_is_true_and_every_advice_fits(self):
        for asked in (self.recomputes[0], self.recomputes[-1]):
            peak = self.predicted("--recompute", asked)
            limits = [peak["peak_bytes_predicted"] * percent // 100 for percent in (20, 35, 50, 60, 70, 80, 90, 97)]
            limits.append(peak["peak_bytes_reserved_predicted"] - 1)
            seen = set()
            for limit in limits:
                with self.subTest(asked=asked, limit=limit):
                    if limit < limits[-1] or self.is_refused("--recompute", asked, "--memory-limit", limit):
                        seen.add(self.expect_true(limit, asked))
            self.assertEqual(seen, {"fits", "nothing"})

    def test_recomputing_more_within_the_limit_changes_no_bit(self):
        free = self.figures("--recompute", "none")
        limit = free["peak_bytes_reserved"] * 4 // 5
        fits = FITS.search(self.fails(3, ("--recompute", "none", "--memory-limit", limit), "out of memory"))
        self.assertNotIn("--batch", fits[1])
        for flags in ((*fits[1].split(), "--memory-limit", limit), ("--recompute", "none", "--memory-limit", fits[4])):
            figures = self.figures(*flags)
            self.assertEqual(figures["state_sha256"], free["state_sha256"])
            self.expect_predicted(figures)

    def test_a_resumed_training_keeps_its_batch(self):
        file = self.path("stopped.safetensors")
        free = self.figures("--recompute", "none", "--stop-after", 1, "--save", file)
        limit = free["peak_bytes_reserved"] * 4 // 5
        resume = ("--resume", file, "--stop-after", 1)
        fits = FITS.search(self.fails(3, (*resume, "--memory-limit", limit), "out of memory"))
        self.assertNotIn("--batch", fits[1])
        self.figures(*resume, *fits[1].split(), "--memory-limit", limit)
        line = self.fails(3, (*resume, "--memory-limit", free["peak_bytes_reserved"] // 3), "out of memory")
        enough = re.search("; a training that is resumed keeps its batch, and with it nothing fits: use --memory-limit (.*)$", line)
        self.figures(*resume, "--memory-limit", enough[1])


class RefusedGpt(Refused):
    program = "train_gpt"
    recomputes = ("none", "cheap", "mlp", "blocks")
    smaller = ("--layers", 1, "--width", 8, "--heads", 1, "--batch", 1, "--accumulate", 12)
    batch = 12

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = cls.write("text.txt", "the quick brown fox jumps over the lazy dog. " * 60)
        cls.flags = ("--data", text, "--layers", "6", "--heads", "2", "--width", "96", "--block", "64", "--batch", "12",
                     "--steps", "2", "--threads", "2")


class RefusedUNet(Refused):
    program = "train_segmentation"
    recomputes = ("none", "cheap", "blocks")
    smaller = ("--base-width", 1, "--batch", 1, "--accumulate", 8)
    batch_norm = True
    batch = 8
    flags = ("--base-width", "6", "--height", "96", "--width", "96", "--clouds", "16", "--validation", "5", "--batch", "8",
             "--steps", "2", "--threads", "2")


del Refused

if __name__ == "__main__":
    unittest.main()
