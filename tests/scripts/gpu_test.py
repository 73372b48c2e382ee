"""What scripts/gpu keeps where time ends: it needs a GPU, its limits do not."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "gpu")
LOADER = importlib.machinery.SourceFileLoader("gpu", SCRIPT)
gpu = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu", LOADER))
LOADER.exec_module(gpu)

TESTS = """
add_test(passes "/bin/true")
add_test(lasts "/bin/sleep" "60")
add_test(follows "/bin/true")
set_tests_properties(passes lasts follows PROPERTIES LABELS gpu)
set_tests_properties(lasts PROPERTIES DEPENDS passes)
set_tests_properties(follows PROPERTIES DEPENDS lasts)
"""


def runner(limit=60):
    return gpu.Runner(dict(os.environ), limit)


def shell(code):
    return ["/bin/sh", "-c", code]


class Limits(unittest.TestCase):
    def setUp(self):
        said = mock.patch.object(gpu, "say")
        said.start()
        self.addCleanup(said.stop)

    def test_a_stopped_program_may_clean_up_and_what_it_printed_is_returned(self):
        code = "trap 'echo ended; exit' TERM; echo first; sleep 60 & wait"
        self.assertEqual(runner().run(shell(code), 2, stdout=gpu.subprocess.PIPE), (124, "first\nended\n"))

    def test_a_program_that_will_not_end_is_killed_with_what_it_started(self):
        code = "trap '' TERM; sleep 60; echo late"
        with mock.patch.object(gpu, "TO_END", 1):
            self.assertEqual(runner().run(shell(code), 1, stdout=gpu.subprocess.PIPE), (124, ""))

    def test_nothing_starts_after_the_end(self):
        self.assertEqual(runner(0).run(["/no/such/program"], 10), (124, ""))

    def test_rows_of_a_stopped_program_are_kept(self):
        rows = {"rows": [1, 2]}
        code = """echo '{"rows": ['; echo '1,'; echo 2;"""
        self.assertEqual(gpu.run_json(shell(f"{code} sleep 60"), runner(), most=2, rest="]}"), {**rows, "error": "stopped"})
        self.assertEqual(gpu.run_json(shell(f"{code} exit 3"), runner(), rest="]}"), {**rows, "error": "ended with 3"})

    @unittest.skipUnless(shutil.which("ctest"), "ctest is not in the PATH")
    def test_tests_that_are_cut_short_report(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(gpu, "BUILD", pathlib.Path(folder)):
            pathlib.Path(folder, "CTestTestfile.cmake").write_text(TESTS, encoding="utf-8")
            results = gpu.run_tests(runner(gpu.TO_REPORT + 4))
        self.assertNotEqual(results.pop("code"), 0)
        self.assertEqual(results, {"passed": 1, "failed": ["lasts"], "skipped": [], "not_run": ["follows"], "stopped": True})

    def test_rows_of_headroom_come_before_any_of_pytorch(self):
        kept = []
        with mock.patch.object(gpu, "run_json", lambda command, _: {"command": command}):
            rows = gpu.run_gpt2(runner(), True, False, lambda rows: kept.append(len(rows)))
        self.assertEqual([row["dtype"] for row in rows], ["bf16", "f32", "f16"] * 3)
        self.assertEqual(["gpt2_step" in row["command"][0] for row in rows], [True] * 3 + [False] * 6)
        self.assertEqual(["--compile" in row["command"] for row in rows], [False] * 6 + [True] * 3)
        self.assertEqual(kept, list(range(1, 10)))


class Results(unittest.TestCase):
    def test_benchmarks_alone_build_no_tests(self):
        self.assertEqual(gpu.target_of(["gpt2", "kernels"]), "gpu_benchmarks")
        for wanted in ([], ["tests"], ["gpt2", "sanitizer"]):
            self.assertEqual(gpu.target_of(wanted), "gpu")

    def test_a_build_that_is_stopped_leaves_a_file_that_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "gpu.json")

            def build(*_):
                self.assertEqual(json.loads(file.read_text())["build"], "not done")
                return "stopped"

            card = {"name": "a GPU", "driver": "1", "capability": "9.0", "memory": "1 MiB"}
            with mock.patch.multiple(gpu, gpu=lambda: card, find_nvcc=lambda: "true", build=build, fail=sys.exit), \
                    mock.patch.object(sys, "argv", ["gpu", "--only", "gpt2", "--out", folder]):
                with self.assertRaises(SystemExit):
                    gpu.main()
            self.assertEqual(json.loads(file.read_text())["build"], "stopped")


if __name__ == "__main__":
    unittest.main()
