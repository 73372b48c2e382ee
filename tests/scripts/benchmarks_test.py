"""Benchmarks run on this processor: of each function in each program, the case with the smallest sizes, once."""
import json
import math
import os
import pathlib
import re
import subprocess
import unittest

PROGRAMS = sorted(pathlib.Path(os.environ["HEADROOM_BUILD_DIR"], "bench").glob("*/*_bench"))


def smallest(names):
    """A case of each function. No name has characters of regular expressions."""
    cases = {}
    for name in names:
        function = re.split(r"/[^/]*\d+(?=/|$)", name, maxsplit=1)[0]
        size = math.prod(int(number) or 1 for number in re.findall(r"(?<=[/:])\d+(?=/|$)", name))
        cases[function] = min(cases.get(function, (size, name)), (size, name))
    return [name for _, name in cases.values()]


class Benchmarks(unittest.TestCase):
    @unittest.skipUnless(PROGRAMS, "a build without benchmarks")
    def test_each_runs(self):
        for program in PROGRAMS:
            with self.subTest(program=program.name):
                names = subprocess.run([program, "--benchmark_list_tests"], capture_output=True, check=True, text=True).stdout.split("\n")
                cases = smallest(filter(None, names))
                self.assertTrue(cases)
                run = subprocess.run([program, "--benchmark_min_time=0.0001", "--benchmark_format=json",
                                      f"--benchmark_filter=^({'|'.join(cases)})$"],
                                     capture_output=True, check=False, text=True)
                self.assertEqual(run.returncode, 0, run.stderr[-2000:])
                done = json.loads(run.stdout)["benchmarks"]
                self.assertEqual([case for case in done if case.get("error_occurred")], [])
                self.assertEqual({case["name"] for case in done}, set(cases))


if __name__ == "__main__":
    unittest.main()
