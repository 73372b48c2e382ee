"""Files of made-up memory histories, for the tests that read them.

HEADROOM_MEMORY_TESTS_DIR names the folder with the program that writes them; ctest sets it.
"""
import os
import subprocess
import tempfile
import unittest

PROGRAMS = os.environ.get("HEADROOM_MEMORY_TESTS_DIR", "build/release/tests/memory")
CATEGORIES = ["parameters", "gradients", "optimizer state", "activations", "workspace", "inputs"]


class HistoryCase(unittest.TestCase):
    """Writes the files of each choice of options once."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="headroom-")
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = scratch.name
        cls.runs = {}

    @classmethod
    def files(cls, **options):
        """The folder of the files, and the figures that they should show."""
        words = tuple(f"{key}={value}" for key, value in options.items())
        if words not in cls.runs:
            folder = os.path.join(cls.scratch, "_".join(words) or "default")
            os.makedirs(folder, exist_ok=True)
            run = subprocess.run([os.path.join(PROGRAMS, "write_history"), folder, *words], capture_output=True, text=True,
                                 check=True)
            figures = {key: int(value) for key, value in (line.rsplit(" ", 1) for line in run.stdout.splitlines())}
            cls.runs[words] = folder, figures
        return cls.runs[words]
