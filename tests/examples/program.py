"""What the tests of the example programs share: running them, and what they promise about failing.

HEADROOM_EXAMPLES_DIR names the folder with the programs; ctest sets it.
"""
import json
import os
import resource
import subprocess
import tempfile
import unittest

EXAMPLES = os.environ.get("HEADROOM_EXAMPLES_DIR", "build/release/examples")
SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def data_file(name):
    """A file of the data folder beside the sources, or named by HEADROOM_DATA; None if it is not there."""
    path = os.path.join(os.environ.get("HEADROOM_DATA", os.path.join(SOURCE, "..", "shared", "data")), name)
    return path if os.path.exists(path) else None


class ProgramCase(unittest.TestCase):
    """A test case of one program, with a folder of its own for files."""

    program = ""
    flags = ()

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

        return subprocess.run(cls.command(*flags), capture_output=True, text=True, errors="surrogateescape", check=False, timeout=120,
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

    def expect_predicted(self, figures):
        """What a dry run said beforehand is what was measured, to the byte."""
        self.assertGreater(figures["peak_bytes_allocated"], figures["resident_bytes"])
        self.assertEqual(figures["peak_bytes_predicted"], figures["peak_bytes_allocated"])
        self.assertEqual(figures["peak_bytes_reserved_predicted"], figures["peak_bytes_reserved"])
