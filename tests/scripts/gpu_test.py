"""Parts of scripts/gpu that need no GPU: its limits, its order, what it takes of tests, times of a tree."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOADER = importlib.machinery.SourceFileLoader("gpu", str(ROOT / "scripts" / "gpu"))
gpu = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu", LOADER))
LOADER.exec_module(gpu)
sys.path.insert(0, str(ROOT / "bench" / "peers"))
import host_time  # noqa: E402
import parts  # noqa: E402
import runner as runners  # noqa: E402
import steps  # noqa: E402

TESTS = """
add_test(passes "/bin/echo" "it says [  SKIPPED ] Some.Case (0 ms)")
add_test(lasts "/bin/sleep" "60")
add_test(follows "/bin/true")
add_test(was_not_built "/no/such/program")
set_tests_properties(passes lasts follows was_not_built PROPERTIES LABELS gpu)
set_tests_properties(lasts PROPERTIES DEPENDS passes)
set_tests_properties(follows PROPERTIES DEPENDS lasts)
"""


def runner(seconds=600):
    return runners.Runner(seconds)


def shell(code):
    return ["/bin/sh", "-c", code]


def silent(test):
    for module in (runners, parts, gpu):
        said = mock.patch.object(module, "say")
        said.start()
        test.addCleanup(said.stop)


class Calls(unittest.TestCase):
    def test_fit_into_440_and_235_seconds(self):
        """With the time to end what is stopped, and to start and to write."""
        self.assertEqual(steps.LIMITS, {1: 440, 2: 235})
        for call, limit in steps.LIMITS.items():
            taken = [step.seconds for step in steps.STEPS if step.call == call]
            self.assertGreater(min(taken), runners.TO_END)
            self.assertLessEqual(sum(taken) + 2 * runners.TO_END, limit)
        self.assertEqual({step.seconds for step in steps.STEPS if not step.call}, {0})

    def test_the_page_has_them_as_the_script_prints_them(self):
        page = (ROOT / "docs" / "building.md").read_text(encoding="utf-8")
        self.assertIn(f"```text\n{steps.plan()}\n```\n", page)
        printed = gpu.subprocess.run([sys.executable, "-B", ROOT / "scripts" / "gpu", "--plan"], capture_output=True, text=True, check=True)
        self.assertEqual(printed.stdout, steps.plan() + "\n")

    def test_builds_are_of_what_the_parts_need(self):
        def builds(*chosen):
            return [step.flags for step in steps.wanted(*chosen, steps.DTYPES) if step.part == "build"]
        self.assertEqual(builds(0, []), ["gpu_benchmarks train_segmentation", "gpu"])
        self.assertEqual(builds(0, ["kernels"]), ["gpu_benchmarks"])
        self.assertEqual(builds(0, ["segmentation", "tests"]), ["train_segmentation", "gpu"])
        for part in ("dist", "tests", "sanitizer"):
            self.assertEqual(builds(0, [part]), ["gpu"], part)
        self.assertEqual(builds(1, ["build"]), ["gpu_benchmarks train_segmentation"])
        self.assertEqual(builds(2, []), ["gpu"])

    def taken(self, call, *wanted):
        """When each step ends by a clock of the test's own, in seconds, and whether it is stopped. A step's flags are the seconds
        that its program takes."""
        clock, ends = [1000.0], []

        def take(step):
            left, takes = work.runner.left(), float(step.flags)
            clock[0] += min(left, takes)
            ends.append((clock[0] - 1000, left < takes))
        with mock.patch.object(runners.time, "monotonic", lambda: clock[0]):
            work = types.SimpleNamespace(runner=runner(0 if call else 5), built={}, take=take)
            gpu.take_steps(types.SimpleNamespace(call=call), work.runner, work, [steps.Step("kernels", "", *step) for step in wanted])
        return ends

    def test_a_step_has_its_time_and_what_was_left_before_it(self):
        self.assertEqual(self.taken(1, ("0.5", 1, 2), ("60", 1, 2), ("0", 1, 9)), [(0.5, False), (4, True), (4, False)])

    def test_a_step_that_takes_too_long_takes_no_time_of_those_behind_it(self):
        self.assertEqual(self.taken(1, ("60", 1, 1), ("0.5", 1, 5)), [(1, True), (1.5, False)])
        self.assertEqual(self.taken(0, ("0.5", 1, 0), ("60", 1, 0)), [(0.5, False), (5, True)], "no call: until the limit")


class Limits(unittest.TestCase):
    def setUp(self):
        silent(self)

    def test_a_stopped_program_may_clean_up_and_what_it_printed_is_returned(self):
        code = "trap 'echo ended; exit' TERM; echo first; sleep 60 & wait"
        self.assertEqual(runner().run(shell(code), 2, stdout=gpu.subprocess.PIPE), (124, "first\nended\n"))

    def test_a_program_that_will_not_end_is_killed_with_what_it_started(self):
        code = "trap '' TERM; sleep 60; echo late"
        with mock.patch.object(runners, "TO_END", 1):
            self.assertEqual(runner().run(shell(code), 1, stdout=gpu.subprocess.PIPE), (124, ""))

    def test_nothing_starts_after_the_end(self):
        self.assertEqual(runner(0).run(["/no/such/program"], 10), (124, ""))
        self.assertEqual(runner(0).object_of(shell("echo '{}'")), {"error": "not begun: no time was left"})

    def test_rows_of_a_stopped_program_are_kept(self):
        rows = {"rows": [1, 2]}
        code = """echo '{"rows": ['; echo '1,'; echo 2;"""
        self.assertEqual(runner().object_of(shell(f"{code} sleep 60"), most=2, rest="]}"), {**rows, "error": "stopped"})
        self.assertEqual(runner().object_of(shell(f"{code} exit 3"), rest="]}"), {**rows, "error": "ended with 3"})

    def test_what_is_not_finite_is_none(self):
        self.assertEqual(runner().object_of(shell("""echo '{"a": NaN, "b": [-Infinity, 1.5]}'""")), {"a": None, "b": [None, 1.5]})

    def test_a_file_is_read_where_a_program_writes_one(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "row.json")
            self.assertEqual(runner().object_of(shell(f"""echo '{{"a": 1}}' >{file}; echo a picture"""), file=file), {"a": 1})
            file.unlink()
            self.assertEqual(runner().object_of(shell("echo nothing"), file=file), {"error": "ended with 0: nothing\n"})

    def test_a_rank_that_fails_is_the_result(self):
        summary = {"state_sha256": "a", "val_loss": 2.5, "tokens_per_second": 10}
        code = f"""[ "$RANK" = "$FAILS" ] && {{ echo rank $RANK is broken; exit 3; }}
            for file; do :; done; [ "${{RANK:-0}}" != 0 ] || echo '{json.dumps(summary)}' >"$file" """
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(parts, "BUILD", pathlib.Path(folder)):
            program = pathlib.Path(folder, "examples", "train_gpt")
            program.parent.mkdir()
            program.write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
            program.chmod(0o755)
            for fails in ("0", "2"):
                with mock.patch.dict(os.environ, FAILS=fails):
                    self.assertEqual(parts.ranks(runner(), 3, quick=True),
                                     {"ranks": 3, "one": summary, "error": f"all: rank {fails} is broken"})
            with mock.patch.dict(os.environ, FAILS="none"):
                self.assertEqual(parts.ranks(runner(), 2, quick=True), {"ranks": 2, "one": summary, "all": summary})

    def test_gpus_are_those_that_programs_see(self):
        with mock.patch.object(parts, "output_of", lambda _: "GPU 0: A (UUID: GPU-1)\nGPU 1: A (UUID: GPU-2)\nGPU 2: A (UUID: GPU-3)"):
            for chosen, count in (("1", 1), ("GPU-3,GPU-1", 2)):
                with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES=chosen):
                    self.assertEqual(parts.count_gpus(), count)
            with mock.patch.dict(os.environ):
                os.environ.pop("CUDA_VISIBLE_DEVICES", None)
                self.assertEqual(parts.count_gpus(), 3)

    def test_what_the_sanitizer_finds_is_not_clean(self):
        """Which ends, unless it is told otherwise, as the program does."""
        code = """code=0; [ "$3" = --error-exitcode ] && code=$4
            [ "$2" = racecheck ] || exit 0
            echo "a race in $(basename "$5")"; exit "$code\""""
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder, "compute-sanitizer")
            tool.write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
            tool.chmod(0o755)
            kept = []
            with mock.patch.dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"):
                results = parts.sanitizer(runner(), lambda value: kept.append(len(value)))
        expected = {}
        for name in parts.SANITIZED:
            expected |= {f"memcheck {name}": "clean", f"racecheck {name}": f"a race in {name}\n"}
        self.assertEqual(results, expected)
        self.assertEqual(kept, list(range(1, len(expected) + 1)))

    def test_two_ranks_are_for_two_gpus(self):
        """NCCL refuses a second rank on one GPU."""
        with mock.patch.object(parts, "ctest", lambda _, __, labels, name: {"labels": labels, "name": name}), \
                mock.patch.object(parts, "ranks", lambda _, gpus, __: {"ranks": gpus}):
            tests = {"labels": ["-L", "^gpu$", "-L", "^dist$"], "name": "dist"}
            self.assertEqual(parts.dist(runner(), None, 1, False), {"gpus": 1, "tests": tests})
            self.assertEqual(parts.dist(runner(), None, 2, False), {"gpus": 2, "tests": tests, "ranks": 2})

    @unittest.skipUnless(shutil.which("ctest"), "ctest is not in the PATH")
    @mock.patch.dict(os.environ, TZ="<+0530>-5:30")
    def test_tests_that_are_cut_short_report_in_any_time_zone(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(parts, "BUILD", pathlib.Path(folder)):
            pathlib.Path(folder, "CTestTestfile.cmake").write_text(TESTS, encoding="utf-8")
            results = parts.tests(runner(parts.TO_REPORT + 4), pathlib.Path(folder))
            self.assertIn("it says", pathlib.Path(folder, "tests.log").read_text(encoding="utf-8"))
            self.assertIn("testcase", pathlib.Path(folder, "tests.xml").read_text(encoding="utf-8"))
        self.assertNotEqual(results.pop("code"), 0)
        self.assertEqual(results, {"passed": 1, "failed": ["lasts"], "skipped": ["Some.Case"], "stopped": True,
                                   "not_run": ["follows", "was_not_built"]})

    def test_the_log_of_tests_grows_as_they_run(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(parts, "BUILD", pathlib.Path(folder)):
            log = pathlib.Path(folder, "tests.log")
            code = f"echo first; until grep -q first {log}; do sleep 0.1; done"
            pathlib.Path(folder, "CTestTestfile.cmake").write_text(
                f'add_test(looks /bin/sh -c [[{code}]])\nset_tests_properties(looks PROPERTIES LABELS gpu)\n', encoding="utf-8")
            self.assertEqual(parts.tests(runner(), pathlib.Path(folder))["passed"], 1)
            self.assertEqual(parts.ctest(runner(), pathlib.Path(folder), ["-L", "^dist$"], "dist")["failed"], ["no test has -L ^dist$"])



class Rows(unittest.TestCase):
    def setUp(self):
        silent(self)

    def commands(self, part):
        """Of each step of the part: the step, the command, and the environment, if it is not ours."""
        seen = []
        runs = types.SimpleNamespace(object_of=lambda command, env=None, file=None: seen.append((command, env)) or {"error": "none"})
        some = [step for step in steps.STEPS if step.part == part]
        for step in some:
            {"gpt2": parts.gpt2, "models": parts.model, "segmentation": parts.segmentation}[part](step, runs, False)
        return [(step, *each) for step, each in zip(some, seen)]

    def test_a_step_is_run_by_its_program_with_its_flags(self):
        for part, ours, theirs in (("gpt2", "gpt2_step", "gpt2_torch.py"), ("models", "model_step", "train.py"),
                                   ("segmentation", "train_segmentation", "")):
            for step, command, env in self.commands(part):
                torch = step.name.startswith("torch")
                self.assertEqual(pathlib.Path(command[1] if torch else command[0]).name, theirs if torch else ours)
                self.assertIn(f" {step.flags} ", " ".join(command) + " ")
                self.assertEqual(env is not None, torch, "PyTorch has libraries of its own")
                self.assertEqual(bool({"--compile", "compiled"} & set(command)), step.name == "torch compiled")

    def test_pytorch_compiles_behind_ours(self):
        names = [step.name for step in steps.STEPS if step.flags == "--dtype f16 --batch 64" or step.flags == "--dtype f16 --batch 64 --graphs"]
        self.assertEqual(names, ["headroom", "headroom", "torch eager", "torch compiled"])

    def test_a_model_in_pytorch_has_the_names_of_model_step(self):
        figures = {"framework": "torch 2.0", "parameters": 3, "step_seconds": 0.5, "peak_bytes_allocated": 7, "peak_bytes_reserved": 8,
                   "loss": 1.5}
        step = steps.Step("models", "torch eager", steps.RESNET50)
        row = parts.model(step, types.SimpleNamespace(object_of=lambda command, env: figures), False)
        known = json.loads((ROOT / "tests" / "scripts" / "gpu_run.json").read_text(encoding="utf-8"))
        self.assertEqual(set(row) | {"framework", "flags"}, set(known["models"][2]))
        self.assertEqual((row["model"], row["samples_per_second"], row["peak_bytes"]), ("resnet50", 512, 7))

    def test_only_our_programs_see_our_libraries(self):
        brings = runner()
        brings.bring(["/deps/lib"])
        self.assertTrue(brings.ours["LD_LIBRARY_PATH"].startswith("/deps/lib:"))
        with mock.patch.object(brings, "run", return_value=(0, "{}")) as run:
            brings.object_of(["/bin/true"])
            brings.object_of(["/bin/true"], env=dict(os.environ))
        first, second = (call.kwargs["env"].get("LD_LIBRARY_PATH", "") for call in run.call_args_list)
        self.assertEqual(("/deps/lib" in first, "/deps/lib" in second), (True, False))

    def test_the_time_to_queue_is_that_of_a_call_behind_a_wait(self):
        clock, said = [0.0], []

        def wait():
            said.append("wait")
            clock[0] += 100  # the GPU's

        def work():
            said.append("work")
            clock[0] += len(said) // 2  # 1, 2, 3 s

        with mock.patch.object(host_time.time, "perf_counter", lambda: clock[0]):
            self.assertEqual(host_time.queueing_seconds(work, wait, 3), 2)
        self.assertEqual(said, ["wait", "work"] * 3)
        source = (ROOT / "bench" / "peers" / "gpt2_torch.py").read_text(encoding="utf-8")
        self.assertRegex(source, re.escape("host = queueing_seconds(step, torch.cuda.synchronize, "))


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
