"""bench/runs.py: what scripts that run programs share."""
import datetime
import importlib.util
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("runs", ROOT / "bench" / "runs.py")
runs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(runs)

WRITES = "import json, sys; json.dump({'steps': 3}, open(sys.argv[sys.argv.index('--json') + 1], 'w')); sys.exit(%d)"


class Programs(unittest.TestCase):
    def test_figures_are_what_it_wrote(self):
        self.assertEqual(runs.figures_of([sys.executable, "-c", WRITES % 0]), {"steps": 3})

    def test_one_that_fails_gives_none(self):
        with self.assertRaises(subprocess.CalledProcessError):
            runs.figures_of([sys.executable, "-c", WRITES % 1])

    def test_processors_time_is_that_of_the_program(self):
        used = iter([types.SimpleNamespace(ru_utime=5.0, ru_stime=1.0), types.SimpleNamespace(ru_utime=9.0, ru_stime=2.0)])

        def getrusage(whose):
            self.assertEqual(whose, resource.RUSAGE_CHILDREN)
            return next(used)

        with unittest.mock.patch.object(runs.resource, "getrusage", getrusage):
            figures = runs.timed_figures_of([sys.executable, "-c", WRITES % 0])
        self.assertEqual((figures["steps"], figures["cpu_seconds"], figures["cpu_seconds_per_core"]), (3, 5.0, 2.5))
        self.assertGreater(figures["wall_seconds"], 0)


class Heads(unittest.TestCase):
    def test_the_processors_name(self):
        text = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: Some Processor: X\nmodel name\t: another\n"
        with unittest.mock.patch("builtins.open", unittest.mock.mock_open(read_data=text)):
            self.assertEqual(runs.cpu_name(), "Some Processor: X")

    def test_figures_follow_the_head(self):
        with unittest.mock.patch.object(sys, "argv", [str(ROOT / "bench" / "script.py")]):
            result = runs.headed({"rows": [1], "what": "a test"})
        self.assertEqual(list(result), ["what", "date", "command", "commit", "rows"])
        self.assertEqual((result["what"], result["command"], result["rows"]), ("a test", "bench/script.py", [1]))
        self.assertEqual(result["date"], datetime.date.today().isoformat())

    def test_what_is_not_finite_is_null(self):
        rows = [{"loss": float("nan"), "steps": 3}, (float("inf"), 1.5, "nan")]
        self.assertEqual(runs.headed({"what": "a test", "rows": rows})["rows"], [{"loss": None, "steps": 3}, [None, 1.5, "nan"]])

    def test_a_row_is_a_line(self):
        result = {"what": "a tést", "rows": [{"loss": 0.1, "bytes": {"all": [1, 2]}}, [3, 4]], "few": {"one": [1]}, "empty": [],
                  "many": {"first": {"rows": [{"x": 1}, {"x": 2}]}, "note": "long " * 32}}
        text = runs.text_of(result)
        self.assertEqual(json.loads(text), result)
        self.assertEqual(text.splitlines()[:9], [
            "{", ' "what": "a tést",', ' "rows": [', '  {"loss": 0.1, "bytes": {"all": [1, 2]}},', "  [3, 4]", " ],",
            ' "few": {"one": [1]},', ' "empty": [],', ' "many": {'])
        self.assertEqual(text.splitlines()[9], '  "first": {"rows": [{"x": 1}, {"x": 2}]},', "what is short is a line")

    def test_a_result_may_name_its_command(self):
        self.assertEqual(runs.headed({"what": "a test", "command": "x --y"})["command"], "x --y")

    def test_the_commit_says_if_something_was_changed(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(runs, "ROOT", pathlib.Path(folder)):
            result = {"what": "a test", "command": "x"}
            self.assertIsNone(runs.headed(result)["commit"])

            def git(*arguments):
                settings = ["-c", "user.name=x", "-c", "user.email=x", "-c", "commit.gpgsign=false"]
                return subprocess.run(["git", "-C", folder, *settings, *arguments], check=True, capture_output=True, text=True).stdout

            git("init", "--quiet")
            file = pathlib.Path(folder, "file")
            file.write_text("a", encoding="utf-8")
            git("add", "file")
            git("commit", "--quiet", "-m", "a")
            commit = git("rev-parse", "--short=8", "HEAD").strip()
            self.assertEqual(runs.headed(result)["commit"], commit)
            file.write_text("b", encoding="utf-8")
            self.assertEqual(runs.headed(result)["commit"], f"{commit}-dirty")


if __name__ == "__main__":
    unittest.main()
