"""Result files say what they are, and the tables of README and docs are those of the files."""
import datetime
import importlib.util
import json
import operator
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench" / "tables.py"
sys.path.insert(0, str(SCRIPT.parent))
SPEC = importlib.util.spec_from_file_location("tables", SCRIPT)
tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tables)
import chart  # noqa: E402
import comparison  # noqa: E402
import plan_picture  # noqa: E402
import speed_picture  # noqa: E402
import time_picture  # noqa: E402


def row(framework="headroom", **figures):
    """One of memory_speed's."""
    return {"framework": framework, "technique": "plan", "name": "", "dtype": "f32", "optimizer": "adamw", "batch": 4, "accumulate": 1,
            "refused": None, "peak_bytes_allocated": 90, "peak_bytes_reserved": 100, "samples_per_second": 10.0,
            "step_seconds_runs": [1.0], **figures}


def compared(*rows):
    """Such rows behind two baselines that are large and slow."""
    large = {"technique": "baseline", "peak_bytes_allocated": 1000, "peak_bytes_reserved": 1000, "samples_per_second": 1.0}
    file = {"effective_batch": 4, "samples": "images", "rows": [row(**large), row("pytorch", **large | {"samples_per_second": 0.5}), *rows]}
    with unittest.mock.patch.object(comparison, "result", lambda _: file):
        return comparison.Comparison("made up")


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


class Points(unittest.TestCase):
    def test_one_that_is_as_good_in_one_way_and_better_in_the_other_covers(self):
        for better in ({"peak_bytes_reserved": 99}, {"samples_per_second": 11.0}, {}):
            self.assertEqual(compared(row(**better), row("pytorch")).uncovered()[1], [], better)
        for worse in ({"peak_bytes_reserved": 101}, {"samples_per_second": 9.0}):
            self.assertEqual(len(compared(row(**worse), row("pytorch")).uncovered()[1]), 1, worse)

    def test_the_smallest_does_the_same_training(self):
        others = [row(peak_bytes_reserved=40, **other) for other in ({"dtype": "bf16"}, {"optimizer": "sgd"}, {"batch": 2}, {"framework": "pytorch"},
                                                                     {"refused": "why"})]
        same = row(peak_bytes_reserved=50, batch=2, accumulate=2)
        self.assertEqual(compared(*others, row(), same).smallest("headroom"), same)

    def test_a_front_has_no_point_that_is_larger_and_no_faster(self):
        self.assertEqual(speed_picture.front_of([(1, 5), (2, 5), (3, 4), (4, 6)]), [(1, 5), (4, 6)])

    def test_steps_of_axes_are_round(self):
        self.assertEqual([chart.round_step(value) for value in (8, 16, 17, 40, 80, 500, 800)], [1, 2, 5, 5, 10, 100, 100])
        self.assertEqual(len(chart.Axis("", 0.1 * 3, 1.0, 0.1, "").ticks()), 8)
        self.assertEqual(len(chart.Axis("", 0.3, 1.2, 0.1, "").ticks()), 10)

    def test_axes_have_all_values(self):
        for values, ends in (([39, 92], (35, 95)), ([41, 49], (40, 50)), ([40], (40, 45))):
            axis = chart.Axis.around("", values, 10, "")
            self.assertEqual((axis.low, axis.high), ends)
        self.assertEqual(chart.Axis.from_zero("", [3, 8], "").ticks(), [0, 2, 4, 6, 8])

    def test_a_benchmark_is_found_by_the_beginning_of_its_name(self):
        rows = {"benchmarks": [{"name": "record/all"}, {"name": "all/3"}, {"name": "all/4"}]}
        with unittest.mock.patch.object(tables, "result", lambda _: rows):
            self.assertEqual(tables.benchmark("tape", "all")["name"], "all/3")

    def test_speeds_are_medians_of_the_rounds_pairs(self):
        ours, theirs = {"step_seconds_runs": [1.0, 1.0, 2.0]}, {"step_seconds_runs": [2.0, 3.0, 8.0]}
        self.assertEqual(comparison.faster(ours, theirs), 3.0)

        class Twice:
            """A comparison in which Headroom is twice as fast."""
            name, kept, eager = "twice", {"step_seconds_runs": [1.0]}, {"step_seconds_runs": [2.0]}

        with unittest.mock.patch.object(tables, "Comparison", lambda _: Twice):
            self.assertEqual(tables.speed("any"), ("2.00 times as many", "twice"))

    def test_ways_of_checkpointing(self):
        ways = [row(technique="gradient checkpointing", name=name, peak_bytes_allocated=peak) for name, peak in (("cheap", 80), ("blocks", 60))]
        self.assertEqual(compared(*ways).cheap(), ways[0])
        self.assertEqual(compared(*ways).checkpointed("headroom"), ways[1])
        self.assertIsNone(compared(*ways).checkpointed("pytorch"))

    def test_units_are_powers_of_ten(self):
        self.assertEqual((tables.gigabytes(2_500_000_000), tables.megabytes(2_500_000_000)), ("2.5 GB", "2,500 MB"))

    def test_rehearsed_streams_are_told_apart(self):
        rows = [{"dtype": "bf16", "graphs": False, "half_residual": half, "predicted_allocated": (1 + half) * count * 1e9}
                for half in (False, True) for count in (2, 3, 4)]
        with unittest.mock.patch.object(tables, "result", lambda _: {"rows": rows}):
            self.assertEqual((tables.rehearsed(False), tables.rehearsed(True)), ("2.0, 3.0 and 4.0 GB", "4.0, 6.0 and 8.0 GB"))

    def test_the_picture_of_a_front_goes_in_stairs(self):
        slow, fast = row(name="slow", peak_bytes_reserved=200_000_000, samples_per_second=2.0), \
            row(name="fast", peak_bytes_reserved=600_000_000, samples_per_second=8.0)
        svg = speed_picture.draw(compared(slow, fast))
        lines = [[tuple(map(float, point.split(","))) for point in points.split()] for points in re.findall(r'<polyline points="([^"]*)"', svg)]
        for line in lines:
            self.assertEqual(len(line) % 2, 1, "a corner between each two points")
            for before, corner, after in zip(line[::2], line[1::2], line[2::2]):
                self.assertEqual(corner, (after[0], before[1]))
        self.assertIn(5, list(map(len, lines)), "the baseline, which is small here, is on it as well")

    def test_a_share_is_of_what_is_not_resident(self):
        kept, again = ({"state_sha256": "x", "peak_bytes_allocated": peak, "resident_bytes": state} for peak, state in ((30, 10), (25, 20)))
        self.assertEqual(tables.recomputed_share(kept, again), 0.25)
        with self.assertRaises(AssertionError):
            tables.recomputed_share(kept, again | {"state_sha256": "y"})


class TimePicture(unittest.TestCase):
    def draw(self, *rows):
        return time_picture.draw(compared(*rows), "made up")

    def test_points_are_those_of_the_same_training(self):
        others = [row(samples_per_second=8.0, **other) for other in ({"dtype": "bf16"}, {"optimizer": "sgd"}, {"batch": 2})]
        points = time_picture.points_of(compared(*others, row(peak_bytes_reserved=500, samples_per_second=8.0)), "headroom")
        self.assertEqual(points, [(500e-9, 0.5), (1000e-9, 4.0)])

    def test_a_front_gets_faster_with_memory(self):
        self.assertEqual(time_picture.front_of([(3, 4), (1, 5), (2, 5), (4, 2), (5, 3)], operator.lt), [(1, 5), (3, 4), (4, 2)])

    def test_a_band_ends_where_pytorch_does(self):
        gigabyte = {"peak_bytes_reserved": 400_000_000, "samples_per_second": 2.0}
        svg = self.draw(row(**gigabyte), row("pytorch", **gigabyte | {"peak_bytes_reserved": 480_000_000}))
        self.assertIn("PyTorch ends here", svg)
        band = re.search(r'<rect x="([\d.]+)" y="\d+" width="([\d.]+)" height="\d+" fill="[^"]+" opacity', svg)
        squares = [float(x) + 4 for x in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="8"', svg)]
        self.assertEqual(len(squares), 2)
        self.assertAlmostEqual(float(band[1]) + float(band[2]), min(squares), delta=0.2)


class Readme(unittest.TestCase):
    """The figures that README shows."""

    def test_both_trainings_have_the_same_bits_and_the_predicted_memory(self):
        planned, kept, refused = tables.result("budget_demo")["rows"]
        self.assertEqual(planned["state_sha256"], kept["state_sha256"])
        for run in (planned, kept):
            for what in ("allocated", "reserved"):
                self.assertEqual(run[f"peak_bytes_{what}"], run["peak_bytes_predicted" if what == "allocated" else "peak_bytes_reserved_predicted"])
        self.assertLess(planned["peak_bytes_reserved"], kept["peak_bytes_reserved"])
        self.assertEqual((planned["exit_code"], kept["exit_code"], refused["exit_code"]), (0, 0, 3))

    def test_what_is_left_out_of_the_terminal_is_marked(self):
        lines = [line for run in tables.result("budget_demo")["rows"] for line in (f"$ {run['command']}", *run["lines"])]
        shown = [line for line in tables.terminal().splitlines()[1:-1] if "state_sha256" not in line]
        self.assertEqual(len(shown), 8)
        for line in shown:
            self.assertTrue(any(line == whole or (line.endswith(" ...") and whole.startswith(line[:-4])) for whole in lines), line)

    def test_a_card_takes_what_fits_on_it(self):
        rows = tables.result("cards")["rows"]
        self.assertEqual({row["gpu"] for row in rows}, {None, "RTX 2080 Ti", "RTX 3060", "T4", "RTX 3090"})
        for row in rows:
            self.assertEqual(row["fits"], row["floor_bytes"] <= row["usable_bytes"])
            if row["fits"]:
                self.assertLessEqual(row["peak_bytes_reserved_predicted"], row["usable_bytes"])
                self.assertEqual(row["batch"] * row["accumulate"], 32)
        self.assertEqual(len(tables.cards().splitlines()), 2 + 5)

    def test_has_at_most_120_lines(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()), 120)


class PlanPicture(unittest.TestCase):
    def plan(self, megabytes, measured, predicted):
        return {"peak_bytes_reserved_predicted": megabytes * 1e6, "measured_ratio": measured, "predicted_ratio": predicted}

    def draw(self, *budgets):
        none = {"by_hand": {"peak_bytes_reserved_predicted": 60e6, "step_seconds_predicted": 2.0}}
        return plan_picture.draw({"against_prediction": {"budgets": budgets}, "against_ways": {"none": none}})

    def test_the_first_budget_of_a_plan_counts_in_any_order(self):
        small, large = self.plan(40, 1.5, 1.8), self.plan(50, 1.2, 1.1)
        self.assertEqual(self.draw(small, large), self.draw(large, small))
        self.assertEqual(self.draw(small, large, self.plan(40, 1.3, 1.3)), self.draw(small, large))

    def test_all_lies_within_the_axes(self):
        svg = self.draw(self.plan(40, 1.2, 1.95), self.plan(50, 1.1, 0.91))
        line = re.search(r'points="([^"]*)"', svg).group(1)
        heights = [float(y) for y in re.findall(r'cy="([\d.-]+)"', svg) + re.findall(r",([\d.-]+)", line)]
        self.assertEqual(len(heights), 4)
        self.assertTrue(all(chart.TOP <= y <= chart.HEIGHT - chart.BOTTOM for y in heights), heights)


class Pages(unittest.TestCase):
    def test_and_pictures_have_the_figures_of_the_files(self):
        run = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual({path.name for path in (ROOT / "docs").glob("*.svg")}, {pathlib.Path(name).name for name in tables.PICTURES})

    def test_one_that_differs_is_named_and_remade(self):
        names = [*tables.PAGES, *tables.PICTURES]
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(tables, "ROOT", pathlib.Path(folder)):
            (pathlib.Path(folder) / "docs").mkdir()
            for name in names:
                shutil.copy(ROOT / name, pathlib.Path(folder) / name)

            def run(*flags):
                with unittest.mock.patch.object(sys, "argv", ["tables.py", *flags]):
                    tables.main()

            def text(name):
                return (pathlib.Path(folder) / name).read_text(encoding="utf-8")

            run()
            figure = re.search(r"[\d.]+ GB(?= \|)", tables.cards()).group()
            altered = {"README.md": text("README.md").replace(figure, f"1{figure}"), "docs/speed.svg": text("docs/speed.svg") + "\n"}
            for name, other in altered.items():
                (pathlib.Path(folder) / name).write_text(other, encoding="utf-8")
            with self.assertRaisesRegex(SystemExit, "README.md, docs/speed.svg differ"):
                run()
            self.assertEqual({name: text(name) for name in altered}, altered)
            run("--write")
            for name in names:
                self.assertEqual(text(name), (ROOT / name).read_text(encoding="utf-8"), name)
            run()

    def test_marks_are_there(self):
        with self.assertRaisesRegex(SystemExit, "README.md has no marks"):
            tables.between_marks("", "others: figures of bench/tables.py", "", "README.md")


if __name__ == "__main__":
    unittest.main()
