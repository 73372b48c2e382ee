"""Parts of scripts/gpu that need no GPU: its limits, its order, what it takes of tests, times of a tree."""
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
add_test(passes "/bin/echo" "it says [  SKIPPED ] Some.Case (0 ms)")
add_test(lasts "/bin/sleep" "60")
add_test(follows "/bin/true")
add_test(was_not_built "/no/such/program")
set_tests_properties(passes lasts follows was_not_built PROPERTIES LABELS gpu)
set_tests_properties(lasts PROPERTIES DEPENDS passes)
set_tests_properties(follows PROPERTIES DEPENDS lasts)
"""


def runner(limit=60):
    return gpu.Runner(limit)


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

    def test_a_rank_that_fails_is_the_result(self):
        summary = {"state_sha256": "a", "val_loss": 2.5, "tokens_per_second": 10}
        code = f"""[ "$RANK" = "$FAILS" ] && {{ echo rank $RANK is broken; exit 3; }}
            for file; do :; done; [ "${{RANK:-0}}" != 0 ] || echo '{json.dumps(summary)}' >"$file" """
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(gpu, "BUILD", pathlib.Path(folder)):
            program = pathlib.Path(folder, "examples", "train_gpt")
            program.parent.mkdir()
            program.write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
            program.chmod(0o755)
            for fails in ("0", "2"):
                with mock.patch.dict(os.environ, FAILS=fails):
                    self.assertEqual(gpu.run_dist(runner(), 3, quick=True),
                                     {"gpus": 3, "ranks": 3, "one": summary, "error": f"all: rank {fails} is broken"})
            with mock.patch.dict(os.environ, FAILS="none"):
                self.assertEqual(gpu.run_dist(runner(), 1, quick=True), {"gpus": 1, "ranks": 2, "one": summary, "all": summary})

    @unittest.skipUnless(shutil.which("ctest"), "ctest is not in the PATH")
    def test_tests_that_are_cut_short_report(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(gpu, "BUILD", pathlib.Path(folder)):
            pathlib.Path(folder, "CTestTestfile.cmake").write_text(TESTS, encoding="utf-8")
            results = gpu.run_tests(runner(gpu.TO_REPORT + 4), pathlib.Path(folder))
            self.assertIn("it says", pathlib.Path(folder, "LastTest.log").read_text(encoding="utf-8"))
            self.assertIn("testcase", pathlib.Path(folder, "tests.xml").read_text(encoding="utf-8"))
        self.assertNotEqual(results.pop("code"), 0)
        self.assertEqual(results, {"passed": 1, "failed": ["lasts"], "skipped": ["Some.Case"], "stopped": True,
                                   "not_run": ["follows", "was_not_built"]})

    def test_the_log_of_tests_grows_as_they_run(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(gpu, "BUILD", pathlib.Path(folder)):
            log = pathlib.Path(folder, "LastTest.log")
            code = f"echo first; for i in $(seq 50); do grep -q first {log} && exit 0; sleep 0.1; done; exit 1"
            pathlib.Path(folder, "CTestTestfile.cmake").write_text(
                f'add_test(looks /bin/sh -c [[{code}]])\nset_tests_properties(looks PROPERTIES LABELS gpu)\n', encoding="utf-8")
            self.assertEqual(gpu.run_tests(runner(), pathlib.Path(folder))["passed"], 1)

    def test_the_largest_batch_comes_first_ours_without_and_with_graphs_and_pytorch_compiles_last(self):
        kept = []
        with mock.patch.object(gpu, "run_json", lambda command, _, env: {"command": command}):
            rows = gpu.run_gpt2(runner(), "2.0", False, ["bf16", "f32"], [], lambda rows: kept.append(len(rows)))
        self.assertEqual([(row["dtype"], row["batch"]) for row in rows],
                         [(dtype, batch) for dtype, batch in (("bf16", 64), ("bf16", 16), ("bf16", 4), ("f32", 16)) for _ in range(4)])
        self.assertEqual([row["framework"] for row in rows], ["headroom", "headroom, graphs", "torch eager", "torch compiled"] * 4)
        for row in rows:
            self.assertEqual("gpt2_step" in row["command"][0], row["framework"].startswith("headroom"))
            self.assertEqual("--graphs" in row["command"], row["framework"] == "headroom, graphs")
            self.assertEqual("--compile" in row["command"], row["framework"] == "torch compiled")
        self.assertEqual(kept, list(range(1, 17)))

    def test_a_model_in_pytorch_has_the_names_of_model_step(self):
        step = {"framework": "torch 2.0", "parameters": 3, "step_seconds": 0.5, "peak_bytes_allocated": 7, "peak_bytes_reserved": 8,
                "loss": 1.5}
        with mock.patch.object(gpu, "run_json", lambda command, _, env: step if "train.py" in command[1] else {"command": command}):
            rows = gpu.run_models(runner(), "2.0", False, [], lambda _: None)
        theirs = [row for row in rows if row["framework"].startswith("torch")]
        self.assertEqual([(row["model"], row["framework"]) for row in theirs], [
            (model, framework) for model in ("resnet50", "unet") for framework in ("torch eager", "torch compiled")])
        known = json.loads((pathlib.Path(SCRIPT).parent.parent / "tests" / "scripts" / "gpu_run.json").read_text(encoding="utf-8"))
        self.assertEqual(set(theirs[0]), set(known["models"][2]))
        self.assertEqual((theirs[0]["samples_per_second"], theirs[0]["peak_bytes"]), (512, 7))

    def test_only_our_programs_see_our_libraries(self):
        ours = gpu.Runner(60, ["/deps/lib"]).ours["LD_LIBRARY_PATH"]
        self.assertTrue(ours.startswith("/deps/lib"))
        seen = []
        with mock.patch.object(gpu, "run_json", lambda command, _, env: seen.append((command[0], env)) or {}):
            gpu.run_gpt2(gpu.Runner(60, ["/deps/lib"]), "2.0", False, ["f32"], [], lambda _: None)
        for program, env in seen:
            self.assertEqual("/deps/lib" in env.get("LD_LIBRARY_PATH", ""), "gpt2_step" in program, program)


class Times(unittest.TestCase):
    """A tree that was copied again is not built again."""

    def test_a_file_that_did_not_change_gets_the_time_of_the_last_build(self):
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder, "build", "times.json")
            same, other, back = (pathlib.Path(folder, name) for name in ("same.cpp", "other.cpp", "back.cpp"))

            def copy(time, **contents):
                for name, text in contents.items():
                    pathlib.Path(folder, name + ".cpp").write_text(text, encoding="utf-8")
                    os.utime(pathlib.Path(folder, name + ".cpp"), (time, time))
                gpu.keep_times(pathlib.Path(folder), record)
                return [int(path.stat().st_mtime) for path in (same, other, back)]

            self.assertEqual(copy(1000, same="a", other="b", back="c"), [1000, 1000, 1000])
            self.assertEqual(copy(2000, same="a", other="B", back="C"), [1000, 2000, 2000])
            self.assertEqual(copy(3000, same="a", other="B", back="c"), [1000, 2000, 3000])  # objects are of "C"
            self.assertNotIn("build/times.json", json.loads(record.read_text(encoding="utf-8")))


if __name__ == "__main__":
    unittest.main()
