"""Each fault of tests/simt/faults fits the sources as they are: what it replaces stands there once."""
import os
import subprocess
import sys
import unittest

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "simt", "faults")


class Faults(unittest.TestCase):
    def test_fit_the_sources(self):
        run = subprocess.run([sys.executable, SCRIPT, "check"], capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
