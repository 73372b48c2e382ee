"""Result files say what they are, and the tables of README and docs are those of the files."""
import datetime
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench" / "tables.py"
sys.path.insert(0, str(SCRIPT.parent))
SPEC = importlib.util.spec_from_file_location("tables", SCRIPT)
tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tables)


class ResultFiles(unittest.TestCase):
    def test_say_what_when_and_by_which_command(self):
        files = sorted((ROOT / "bench" / "results").glob("*.json"))
        self.assertGreater(len(files), 20)
        for path in files:
            with self.subTest(file=path.name):
                file = json.loads(path.read_text(encoding="utf-8"))
                self.assertGreater(len(file["what"]), 10)
                datetime.date.fromisoformat(file["date"])
                script = file["command"].split()[0]
                programs = {source.stem for folder in ("examples", "bench/gpu", "bench/traces") for source in (ROOT / folder).glob("*.cpp")}
                self.assertTrue(script in programs or (ROOT / script).is_file(), file["command"])
                self.assertNotIn("/tmp", file["command"])


class Comparisons(unittest.TestCase):
    """What memory_speed measured beside PyTorch."""

    def test_rows_are_as_predicted_and_have_the_same_bits(self):
        files = {model: tables.Comparison(model) for model in (*tables.MODELS, "gpt_small", "gpt_large")}
        for model, compared in files.items():
            ours = [row for row in compared.rows if row["framework"] == "headroom"]
            self.assertTrue(ours, model)
            for row in ours:
                with self.subTest(model=model, technique=row["technique"], name=row["name"]):
                    for what in ("allocated", "reserved"):
                        self.assertEqual(row[f"peak_bytes_{what}"], row[f"peak_bytes_{what}_predicted"])
                    self.assertTrue(row["same_bits"])
            self.assertEqual(len({row["parameters"] for row in compared.rows}), 1, model)

    def test_all_techniques_are_there(self):
        for model in ("gpt", "lstm"):
            techniques = {row["technique"] for row in tables.Comparison(model).file["rows"] if row["framework"] == "pytorch"}
            self.assertLessEqual({"baseline", "gradient accumulation", "smaller batch", "mixed precision", "optimizer", "compiled",
                                  "activation memory budget"}, techniques, model)


class Pages(unittest.TestCase):
    def test_and_pictures_have_the_figures_of_the_files(self):
        run = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual({path.name for path in (ROOT / "docs").glob("*.svg")}, {pathlib.Path(name).name for name in tables.PICTURES})

    def test_a_page_that_differs_is_named(self):
        page = (ROOT / "README.md").read_text(encoding="utf-8")
        mark = "peaks: figures of bench/tables.py"
        self.assertEqual(tables.between_marks(page, mark, tables.peaks(), "README.md"), page)
        figure = re.search(r"\d+ MB", tables.peaks()).group()
        other = page.replace(figure, f"1{figure}")
        self.assertEqual(tables.between_marks(other, mark, tables.peaks(), "README.md"), page)
        with self.assertRaisesRegex(SystemExit, "README.md has no marks"):
            tables.between_marks(page, "others: figures of bench/tables.py", "", "README.md")


if __name__ == "__main__":
    unittest.main()
