"""Every test that skips where CUDA or a GPU is missing is one that scripts/gpu builds and runs: it has the label gpu."""
import json
import os
import pathlib
import re
import subprocess
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
SKIPS = re.compile(r'GTEST_SKIP\(\) << (error\.what\(\)|"there is no GPU")')


class Labels(unittest.TestCase):
    def test_whoever_needs_a_gpu_has_the_label(self):
        command = ["ctest", "--test-dir", os.environ["HEADROOM_BUILD_DIR"], "--show-only=json-v1"]
        tests = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["tests"]
        labels = {test["name"]: property["value"] for test in tests for property in test["properties"]
                  if property["name"] == "LABELS"}
        needy = {f"{source.parent.name}/{source.stem}" for source in TESTS.glob("*/*_test.cpp")
                 if SKIPS.search(source.read_text(encoding="utf-8"))}
        self.assertGreater(len(needy & labels.keys()), 5)
        self.assertEqual([name for name in sorted(needy & labels.keys()) if "gpu" not in labels[name]], [])


if __name__ == "__main__":
    unittest.main()
