"""What .ci/run leaves to chance, which is nothing, and which sanitizers it has: .ci/touched."""
import collections
import contextlib
import functools
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PATH = ROOT / ".ci" / "touched"


def load():
    loader = importlib.machinery.SourceFileLoader("touched", str(PATH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("touched", loader))
    loader.exec_module(module)
    return module


touched = load()


def write_program(folder, name, text):
    path = pathlib.Path(folder, name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def run_git(folder, *words):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


class Touched(unittest.TestCase):
    def test_every_library_with_tests_has_its_time(self):
        folders = {path.parent.name for path in (ROOT / "tests").glob("*/*_test.cpp")}
        self.assertGreater(len(folders), 10)
        self.assertEqual(folders, set(touched.SECONDS))
        text = (ROOT / "scripts" / "test").read_text(encoding="utf-8")
        threads = re.search(r"tsan\) libraries=\$\{libraries:-([a-z,]+)\}", text)[1]
        self.assertEqual(set(threads.split(",")), set(touched.SECONDS_OF_THREADS))

    def test_files_belong_to_the_tests_that_run_them(self):
        for path, library in (("core/tape/tape.cpp", "core"), ("kernels/matmul/tiled.cu", "kernels"), ("tests/nn/gpt_test.cpp", "nn"),
                              ("tests/simt/fiber.cpp", "simt"), ("bench/traces/replay.cpp", "traces"), ("tests/docs/guide_test.cpp", "docs"),
                              ("examples/cli/program.cpp", "examples"), ("docs/guide.md", None), ("README.md", None),
                              ("scripts/test", None), ("bench/core/instructions.cpp", None), ("tests/support/seed.hpp", None)):
            self.assertEqual(touched.library_of(path), library, path)

    def test_the_most_changed_come_first_as_long_as_there_is_time(self):
        costs = {"a": 100, "b": 300, "c": 50}
        lines = collections.Counter(a=5, b=70, c=9, unknown=1000)
        self.assertEqual(touched.chosen(lines, costs, 1000), (["b", "c", "a"], []))
        self.assertEqual(touched.chosen(lines, costs, 360), (["b", "c"], ["a"]))
        self.assertEqual(touched.chosen(lines, costs, 200), (["c", "a"], ["b"]))
        self.assertEqual(touched.chosen(lines, costs, 10), ([], ["b", "c", "a"]))
        self.assertEqual(touched.chosen(lines, costs, -500), ([], ["b", "c", "a"]))
        self.assertEqual(touched.chosen(collections.Counter(), costs, 10), ([], []))

    def test_one_that_takes_longer_has_its_turn_alone(self):
        costs = {"a": 100, "b": 300, "c": 50}
        lines = collections.Counter(a=5, b=70, c=9)
        self.assertEqual(touched.chosen(lines, costs, 200, 300), (["b"], ["c", "a"]))
        self.assertEqual(touched.chosen(lines, costs, 360, 1000), (["b", "c"], ["a"]), "there is time for more")
        self.assertEqual(touched.chosen(lines, costs, 200, 299), (["c", "a"], ["b"]), "for the night")

    def test_what_libraries_took_is_what_the_next_run_reckons_with(self):
        self.assertEqual(touched.shared_out({"a": 100, "b": 300}, 1000), {"a": 250, "b": 750})
        self.assertEqual(touched.shared_out({"a": 100, "b": 300}, 100), {"a": 80, "b": 240}, "a cache that is warm")
        self.assertEqual(touched.shared_out({"a": 100}, -50), {"a": 80})
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(touched, "ROOT", pathlib.Path(folder)):
            git = functools.partial(run_git, folder)
            noted = write_program(folder, ".ci/sanitized", "asan core old\nasan docs old 1000\nasan gone old 5\ntsan dist old\n")
            git("init", "-q")
            git("add", ".")
            git("commit", "-qm", "first")
            self.assertEqual(touched.costs_of("asan"), touched.SECONDS | {"docs": 1000})
            head = git("rev-parse", "HEAD")
            with mock.patch("sys.argv", ["touched", "--passed", "core,docs", "--took", str(touched.BASE + 3000)]):
                touched.main()
            core, docs = 3000 * touched.SECONDS["core"] // (touched.SECONDS["core"] + 1000), 2000
            self.assertEqual(core, 1000)
            rows = f"asan core {head} {core}\nasan docs {head} {docs}\nasan gone old 5\ntsan dist old\n"
            self.assertEqual(noted.read_text(encoding="utf-8"), rows)
            self.assertEqual(touched.costs_of("asan"), touched.SECONDS | {"core": core, "docs": docs})
            for flags in (["dist", "--threads"], ["docs"]):  # nobody measured
                with mock.patch("sys.argv", ["touched", "--passed", *flags]):
                    touched.main()
            self.assertEqual(noted.read_text(encoding="utf-8"), rows.replace("dist old", f"dist {head}"))

    def test_the_libraries_themselves_take_their_part_of_the_time(self):
        """What is left for `files`, whose tests take a minute, is that minute or a second less."""
        def printed(*flags):
            out, errors = io.StringIO(), io.StringIO()
            with mock.patch.object(touched, "noted", lambda _: {}), mock.patch.object(touched, "changed_lines", lambda of: collections.Counter({"files": 1} if "files" in of else {})), mock.patch("sys.argv", ["touched", *flags]), \
                    contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                touched.main()
            return out.getvalue(), errors.getvalue()

        enough = touched.BASE + touched.SECONDS["files"]
        self.assertEqual(printed("--seconds", str(enough)), ("files\n", ""))
        self.assertEqual(printed("--seconds", str(enough - 1)), ("", ".ci/touched: files: for a later run, or .ci/nightly\n"))
        self.assertEqual(printed("--seconds", "0", "--most", str(enough)), ("files\n", ""))
        self.assertEqual(printed("--seconds", "0", "--most", str(enough - 1))[0], "")
        self.assertEqual(printed("--threads"), ("", ""), "it has no threads")

    def test_counts_what_changed_since_a_library_passed(self):
        with tempfile.TemporaryDirectory() as folder:
            git = functools.partial(run_git, folder)
            def write(name, text):
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")

            def commit():
                git("add", ".")
                git("commit", "-qm", "next")
                return git("rev-parse", "HEAD")

            git("init", "-q")
            write("core/a.cpp", "1\n2\n3\n")
            write("nn/b.cpp", "1\n")
            first = commit()
            write("core/a.cpp", "1\n2\n4\n5\n")
            write("tests/core/a_test.cpp", "1\n")
            write("docs/page.md", "1\n")
            second = commit()
            own, touched.ROOT = touched.ROOT, pathlib.Path(folder)
            try:
                lines = touched.changed_lines
                self.assertEqual(lines({"core": first, "nn": first}), {"core": 4})
                self.assertEqual(lines({"core": "HEAD", "nn": first}), {})
                pathlib.Path(folder, "memory").mkdir()
                git("mv", "core/a.cpp", "memory/a.cpp")
                git("commit", "-qm", "third")
                self.assertEqual(lines({"core": second, "memory": second}), {"core": 4, "memory": 4}, "a file that moved is of both")
                self.assertEqual(lines({"core": second, "memory": "HEAD"}), {"core": 4}, "each since its own commit")
                self.assertEqual(lines({"core": second, "nn": "0" * 40}), {"core": 4, "nn": 1}, "one whose commit nobody knows")

                write(".ci/sanitized", f"asan core {first}\nasan nn {first}\ntsan memory {second}\n")
                third = commit()
                touched.note("asan", ["core", "docs"])
                noted = pathlib.Path(folder, ".ci", "sanitized").read_text(encoding="utf-8")
                self.assertEqual(noted, f"asan core {third}\nasan docs {third}\nasan nn {first}\ntsan memory {second}\n")
                touched.note("tsan", ["memory"])  # in the same run
                noted = noted.replace(f"tsan memory {second}", f"tsan memory {third}")
                self.assertEqual(pathlib.Path(folder, ".ci", "sanitized").read_text(encoding="utf-8"), noted)
                write("nn/b.cpp", "2\n")
                with contextlib.redirect_stderr(io.StringIO()) as errors:
                    touched.note("tsan", ["memory"])
                self.assertEqual(pathlib.Path(folder, ".ci", "sanitized").read_text(encoding="utf-8"), noted)
                self.assertIn("memory passed, but of a tree that is not committed", errors.getvalue())
            finally:
                touched.ROOT = own

    def test_each_library_has_its_own_turn(self):
        """What passed is not taken again before the others, however little they changed."""
        lines = {"optim": 5, "files": 70, "plan": 9}
        with mock.patch.object(touched, "noted", lambda _: {name: [commit] for name, commit in commits.items()}), mock.patch.object(
                touched, "changed_lines", lambda of: collections.Counter({name: lines[name] for name in lines if of[name] != "HEAD"})):
            commits, turns = {}, []
            while len(turns) < 4:
                with mock.patch("sys.argv", ["touched", "--seconds", str(touched.BASE + 250)]), contextlib.redirect_stderr(
                        io.StringIO()), contextlib.redirect_stdout(io.StringIO()) as out:
                    touched.main()
                turns.append(out.getvalue().strip())
                commits |= dict.fromkeys(turns[-1].split(","), "HEAD")
        self.assertEqual(turns, ["files,plan", "optim", "", ""])


class Steps(unittest.TestCase):
    def ran(self, touched, races, fails="none"):
        """What .ci/run starts, and its status, where the sanitizers are wanted for these libraries, and one script fails."""
        with tempfile.TemporaryDirectory() as folder:
            write = functools.partial(write_program, folder)
            run = write(".ci/run", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
            write(".ci/touched", f'#!/bin/sh\ncase "$*" in --passed*) echo "ran $*";; *--threads) echo {races};; *) echo {touched};; esac\n')
            for name in ("setup", "check", "docs", "test", "kernel-coverage"):
                write(f"scripts/{name}", f'#!/bin/sh\nset -- {name} "$@"\necho "ran $*"\necho "100% tests passed"\n[ "$*" != "{fails}" ]\n')
            done = subprocess.run([run], capture_output=True, text=True, check=False)
            return re.sub(r"--took \d+", "--took S", "\n".join(re.findall("^ran (.*)", done.stdout, re.MULTILINE))).split("\n"), done.returncode

    def test_are_all_taken_and_each_sanitizer_has_its_own_libraries(self):
        steps = ["setup --develop", "check", "docs --check", "test --preset ci", "test --preset cuda",
                 "kernel-coverage build/ci --cuda build/cuda"]
        asan = ["test --preset asan --libraries core,dist", "--passed core,dist --took S"]
        tsan = ["test --preset tsan --libraries dist", "--passed dist --took S --threads"]
        self.assertEqual(self.ran("core,dist", "dist"), ([*steps, *asan, *tsan], 0))
        self.assertEqual(self.ran("core,dist", ""), ([*steps, *asan], 0))
        self.assertEqual(self.ran("", "dist"), ([*steps, *tsan], 0))
        self.assertEqual(self.ran("", ""), (steps, 0))
        every = [*steps, *asan, *tsan]
        for i, step in enumerate(every):
            if not step.startswith("--passed"):
                self.assertEqual(self.ran("core,dist", "dist", fails=step), (every[:i + 1], 1), "it ends with what fails")


class Night(unittest.TestCase):
    def noted(self, changed=False, fails="none"):
        """The sanitizers of which .ci/sanitized has the commit when .ci/nightly comes to the tests behind them."""
        with tempfile.TemporaryDirectory() as folder:
            git = functools.partial(run_git, folder)
            for name in ("nightly", "touched"):
                run = write_program(folder, f".ci/{name}", (ROOT / ".ci" / name).read_text(encoding="utf-8"))
            sanitized = write_program(folder, ".ci/sanitized", "asan core none\ntsan dist none\n")
            write_program(folder, "scripts/setup", "#!/bin/sh\n")
            test = write_program(folder, "scripts/test", f'#!/bin/sh\ncase "$2" in {fails} | ci) exit 1;; esac\n')
            git("init", "-q")
            git("add", ".")
            git("commit", "-qm", "first")
            if changed:
                test.write_text(test.read_text(encoding="utf-8") + "# tried\n", encoding="utf-8")
            self.assertEqual(subprocess.run([run.parent / "nightly"], capture_output=True, check=False).returncode, 1)
            rows = [row.split() for row in sanitized.read_text(encoding="utf-8").splitlines()]
            head = git("rev-parse", "HEAD")
            of = {name: {library for sanitizer, library, commit in rows if (sanitizer, commit) == (name, head)} for name in ("asan", "tsan")}
            self.assertTrue(all(libraries in (set(), set(costs)) for libraries, costs in (
                (of["asan"], touched.SECONDS), (of["tsan"], touched.SECONDS_OF_THREADS))), rows)
            return {name for name, libraries in of.items() if libraries}

    def test_notes_the_commit_that_passed_under_each_sanitizer(self):
        self.assertEqual(self.noted(), {"asan", "tsan"})
        self.assertEqual(self.noted(fails="asan"), set())
        self.assertEqual(self.noted(fails="tsan"), {"asan"})
        self.assertEqual(self.noted(changed=True), set(), "what passed is no commit")


class FortyMinutes(unittest.TestCase):
    def test_sanitizers_have_what_is_left_of_them_and_no_more_than_they_may_take(self):
        text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
        function = re.search(r"^left\(\) \{.*?^\}$", text, re.MULTILINE | re.DOTALL)[0]
        for spent, most, left in ((0, 1800, 1800), (1850, 1800, 1000), (2350, 1800, 0), (2450, 1800, -200)):
            script = f"nproc() {{ echo 2; }}\n{function}\nunset SECONDS  # which would count on\nSECONDS={spent}\nleft {most}"
            told = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True).stdout
            self.assertEqual(int(told), left, spent)


class Seeds(unittest.TestCase):
    def test_no_step_takes_its_numbers_from_the_commit(self):
        text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
        self.assertIn("unset HEADROOM_TEST_SEED", text)
        self.assertNotRegex(text, r"HEADROOM_TEST_SEED=|rev-parse")

    def test_random_ones_reach_the_tests_that_draw(self):
        with tempfile.TemporaryDirectory() as folder:
            write = functools.partial(write_program, folder)
            script = write("scripts/test", (ROOT / "scripts" / "test").read_text(encoding="utf-8"))
            for name in ("scripts/setup", "programs/cmake"):
                write(name, "#!/bin/sh\n")
            write("programs/ctest", '#!/bin/sh\necho "${HEADROOM_TEST_SEED-none}" "$@"\n')
            environment = {**os.environ, "PATH": f"{folder}/programs:{os.environ['PATH']}"}
            environment.pop("HEADROOM_TEST_SEED", None)

            def tested(*words):
                return subprocess.run([script, "--preset", "debug", *words], env=environment, check=True, capture_output=True,
                                      text=True).stdout.strip()

            self.assertRegex(tested("-R", "core"), "^none .* -R core$")
            self.assertRegex(tested("--random-seeds", "3", "-R", "core"), r"^random .*\^draws\$ --repeat until-fail:3 -R core$")

    @unittest.skipUnless("HEADROOM_BUILD_DIR" in os.environ, "needs a build")
    def test_tests_that_draw_are_known(self):
        listed = subprocess.run(["ctest", "--test-dir", os.environ["HEADROOM_BUILD_DIR"], "-N", "-L", "^draws$"], capture_output=True,
                                text=True, check=True).stdout
        names = set(re.findall(r"Test +#\d+: (\S+)", listed))
        sources = [path for path in (ROOT / "tests").glob("*/*_test.cpp") if "random_seed()" in path.read_text(encoding="utf-8")]
        self.assertGreater(len(sources), 15)
        built = set(re.findall(r"Test +#\d+: (\S+)", subprocess.run(["ctest", "--test-dir", os.environ["HEADROOM_BUILD_DIR"], "-N"],
                                                                     capture_output=True, text=True, check=True).stdout))
        drawing = {f"{path.parent.name}/{path.stem}" for path in sources} & built
        self.assertLessEqual(drawing, names)
        for name in ("nn/models_search_test", "plan/drawn_plans_test",  # by a header of theirs
                     "core/gradients_test", "core/dry_test", "core/replay_test",  # inputs of ops
                     "simt/block_test", "simt/faults_test"):  # orders of threads
            if name in built:
                self.assertIn(name, names)


if __name__ == "__main__":
    unittest.main()
