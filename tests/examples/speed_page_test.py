"""The page of memory against speed in a real browser: what it draws and says, and that it can be used.

HEADROOM_EXAMPLES_TESTS_DIR names the folder with the program that writes it; ctest sets it.
"""
import html
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "memory"))
import browser

PROGRAMS = os.environ.get("HEADROOM_EXAMPLES_TESTS_DIR", "build/release/tests/examples")
ODD = "</script><script>document.title = 'broken'</script><b>"


def row(framework, technique, name, memory=None, seconds=None, **more):
    """A measured row, of which `more` replaces fields; `memory` in millions of bytes."""
    reserved = memory and memory * 1_000_000
    ours = framework == "headroom"
    measured = {"peak_bytes_allocated": reserved, "peak_bytes_reserved": reserved, "step_seconds": seconds,
                "step_seconds_runs": seconds and [seconds, 2 * seconds], "samples_per_second": seconds and 4 / seconds}
    predicted = {"peak_bytes_allocated_predicted": reserved if ours else None,
                 "peak_bytes_reserved_predicted": reserved if ours else None, "step_seconds_predicted": None}
    at_peak = {"parameters": 500_000_000, "gradients": 1, "optimizer_state": 2, "activations": 3, "scratch": 4}
    return {"framework": framework, "technique": technique, "name": name, "dtype": "f32", "optimizer": "adamw",
            "batch": 4, "accumulate": 1, "recompute": "none", "budget_bytes": None, **measured, **predicted,
            "bytes": at_peak if ours else None, "loss": 10.5, "same_bits": True if ours else None, "replayed_ops": 0,
            "driver_calls": 0, "host_waits": None, "launches": None, "refused": None, **more}


ROWS = [
    row("headroom", "baseline", "keep all", 3600, 1.0, same_bits=None),
    row("headroom", "gradient checkpointing", "blocks", 2500, 2.0, replayed_ops=240),
    row("headroom", "gradient checkpointing", "worse", 2800, 2.5),
    row("headroom", "plan", "more than predicted", 2100, 2.5, peak_bytes_reserved_predicted=2_080_000_000),
    row("headroom", "plan", ODD, refused=f"too small {ODD}"),
    row("headroom", "gradient accumulation", "other bits", 3000, 1.6, same_bits=False),
    row("headroom", "chunked loss", "predicted", step_seconds_predicted=0.8,
        peak_bytes_reserved_predicted=1_200_000_000),
    row("pytorch", "baseline", "eager", 4100, 1.25),
    row("pytorch", "gradient checkpointing", "not covered", 1800, 2.0),
    row("pytorch", "optimizer", "too many bytes", refused="out of memory"),
]
COMPARISON = {"headroom_memory_speed": 1, "model": f"gpt2 {ODD}", "inputs": "4 sequences of 128 tokens",
              "samples": "sequences", "effective_batch": 4, "version": "0.1.0", "commit": "abc1234",
              "date": "2026-11-27", "machine": {"cpu": "a processor", "threads": 2, "gpu": None},
              "command": "memory_speed " + 30 * "--flag value ", "rows": ROWS,
              "larger": [{"machine": machine, "recompute": recompute, "batch": batch,
                          "peak_bytes_reserved_predicted": 500_000_000 * batch // parts,
                          "step_seconds_predicted": batch * parts / 8}
                         for machine in ("a processor", "H100") for recompute, parts in (("none", 1), ("blocks", 2))
                         for batch in (4, 8, 16)]}
POINTS = {"keep all", "blocks", "worse", "more than predicted", "other bits", "predicted", "eager", "not covered"}

# Goes over the canvas: `places` has for each name that the tip says the middle of where it says it.
SEARCH = """
    const canvas = document.getElementById("plot"), tip = document.getElementById("tip"), spots = {}, places = {};
    const move = (x, y) => pointer(canvas, "pointermove", x, y);
    const box = canvas.getBoundingClientRect();
    for (let y = 0; y < box.height; y += 3) for (let x = 0; x < box.width; x += 3) {
        move(x, y);
        if (!tip.hidden) (spots[tip.querySelector("b").textContent] ??= []).push([x, y]);
    }
    const middle = (list, i) => list.reduce((sum, spot) => sum + spot[i], 0) / list.length;
    for (const [name, list] of Object.entries(spots)) places[name] = [middle(list, 0), middle(list, 1)];
    const column = name => {
        const at = texts("#table th").indexOf(name);
        return all("#table tbody tr").map(row => row.children[at].textContent);
    };
    const press = text => all("thead button").find(button => button.textContent === text).click();
"""

# Waits for the result of a script in a frame.
ASK_FRAME = """<script>
const ask = () => {
    const {result, status} = document.querySelector("iframe").contentDocument?.documentElement?.dataset ?? {};
    if (result) Object.assign(document.documentElement.dataset, {result, status});
    else setTimeout(ask, 20);
};
ask();
</script>"""


class SpeedPage(browser.PageCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="headroom-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = scratch.name
        cls.page = cls.written("page.html", COMPARISON)

    @classmethod
    def run_program(cls, page, comparison):
        source = os.path.join(cls.folder, "comparison.json")
        with open(source, "w", encoding="utf-8") as file:
            json.dump(comparison, file)
        return subprocess.run([os.path.join(PROGRAMS, "write_page"), source, page], capture_output=True, text=True,
                              check=False)

    @classmethod
    def written(cls, name, comparison):
        page = os.path.join(cls.folder, name)
        run = cls.run_program(page, comparison)
        assert (run.returncode, run.stderr) == (0, ""), run
        return page

    def figures(self, page):
        return json.loads(self.load(page)[0]["data-figures"])

    def test_points_fronts_and_what_is_not_covered(self):
        found = self.figures(self.page)
        self.assertEqual({point["title"].split(", ")[-1] for point in found["points"]}, POINTS)
        memory = [point["memory"] for point in found["points"]]
        of = {point["title"]: point for point in found["points"]}
        self.assertEqual(memory, sorted(memory))
        blocks, predicted = of["Headroom: gradient checkpointing, blocks"], of["Headroom: chunked loss, predicted"]
        self.assertEqual((blocks["memory"], blocks["speed"], blocks["predicted"]), (2_500_000_000, 2.0, False))
        self.assertEqual((predicted["memory"], predicted["speed"], predicted["predicted"]), (1_200_000_000, 5.0, True))
        self.assertEqual({title: point["faults"] for title, point in of.items() if point["faults"]}, {
            "Headroom: plan, more than predicted": ["reserved 20.0 MB above the prediction"],
            "Headroom: gradient accumulation, other bits": ["other bits than keeping all"]})
        # What is predicted is neither on a front of measured points nor covers any.
        self.assertEqual(found["fronts"], {
            "headroom": ["Headroom: plan, more than predicted", "Headroom: gradient checkpointing, blocks",
                         "Headroom: gradient accumulation, other bits", "Headroom: baseline, keep all"],
            "pytorch": ["PyTorch: gradient checkpointing, not covered", "PyTorch: baseline, eager"]})
        self.assertEqual(found["uncovered"], ["PyTorch: gradient checkpointing, not covered"])

    def test_as_fast_and_no_larger_is_as_good(self):
        rows = [row("headroom", "plan", "small", 2000, 1.0), row("headroom", "baseline", "keep all", 2500, 1.0),
                row("pytorch", "baseline", "eager", 2000, 1.0)]
        found = self.figures(self.written("as_fast.html", {**COMPARISON, "rows": rows}))
        self.assertEqual(found["fronts"], {"headroom": ["Headroom: plan, small"], "pytorch": ["PyTorch: baseline, eager"]})
        self.assertEqual(found["uncovered"], [])

    def test_a_point_tells_of_those_behind_it(self):
        twins = [row("headroom", "baseline", "keep all", 3600, 1.0), row("headroom", "plan", "3.6 GB", 3600, 1.0),
                 row("pytorch", "baseline", "eager", 4100, 1.25)]
        found = self.use(self.written("twins.html", {**COMPARISON, "rows": twins}), SEARCH + """
            result.tips = {};
            for (const [name, place] of Object.entries(places)) {
                move(...place);
                result.tips[name] = tip.innerText;
            }""")
        self.assertEqual(set(found["tips"]), {"3.6 GB", "eager"})  # the last one lies above
        self.assertIn("here as well: Headroom: baseline, keep all", found["tips"]["3.6 GB"])
        self.assertNotIn("here as well", found["tips"]["eager"])

    def test_points_lie_where_their_figures_say_and_tell_them(self):
        found = self.use(self.page, SEARCH + """
            result.places = places;
            result.tips = {};
            for (const [name, place] of Object.entries(places)) {
                move(...place);
                result.tips[name] = tip.innerText;
            }
            pointer(canvas, "pointerleave", 0, 0);
            result.left = tip.hidden;
            const {data, width} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            result.pixels = {};
            for (const [name, [x, y]] of Object.entries(places)) {
                const at = 4 * (Math.round(y) * width + Math.round(x)), rgb = [...data.slice(at, at + 3)];
                result.pixels[name] = "#" + rgb.map(value => value.toString(16).padStart(2, "0")).join("");
            }
            const style = getComputedStyle(document.documentElement);
            result.colours = Object.fromEntries(texts("#legend button").map((technique, i) =>
                [technique, style.getPropertyValue(`--technique-${i}`)]));
            result.hollow = style.getPropertyValue("--plot");""")
        self.assertEqual(set(found["places"]), POINTS)
        self.assertTrue(found["left"])
        of = {point["title"].split(", ")[-1]: point for point in self.figures(self.page)["points"]}
        for figure, axis, sign in (("memory", 0, 1), ("speed", 1, -1)):
            low, high = (pick(of, key=lambda name: of[name][figure]) for pick in (min, max))
            scale = (found["places"][high][axis] - found["places"][low][axis]) / (of[high][figure] - of[low][figure])
            self.assertGreater(sign * scale, 0)
            for name, point in of.items():
                expected = found["places"][low][axis] + scale * (point[figure] - of[low][figure])
                self.assertAlmostEqual(found["places"][name][axis], expected, delta=4, msg=name)
            if figure == "memory":
                origin = found["places"][low][axis] - scale * of[low][figure]
                self.assertAlmostEqual(origin, 58, delta=6, msg="bytes begin at 0")
        techniques = {row["name"]: row["technique"] for row in ROWS}
        for name in POINTS:
            expected = found["hollow"] if name == "predicted" else found["colours"][techniques[name]]
            self.assertEqual(found["pixels"][name], expected, name)
        self.assertRegex(found["tips"]["blocks"], r"(?s)^blocks, gradient checkpointing, Headroom"
                         r".*Peak reserved\s+2\.50 GB.*sequences/s\s+2\.00.*Step\s+2\.00 s.*2\.00 s to 4\.00 s"
                         r".*parameters\s+500\.00 MB")
        self.assertIn("! reserved 20.0 MB above the prediction", found["tips"]["more than predicted"])
        self.assertIn("not covered by Headroom", found["tips"]["not covered"])
        self.assertNotIn("not covered", found["tips"]["eager"])
        self.assertRegex(found["tips"]["predicted"], r"\npredicted$")

    def test_the_head_and_the_count(self):
        found = self.use(self.page, """
            result.about = texts("#about dd");
            result.covered = texts("#covered")[0];
            result.legend = texts("#legend li");""")
        self.assertEqual(found["about"], [
            COMPARISON["model"], COMPARISON["inputs"], "4 sequences", "a processor, 2 threads",
            "Headroom 0.1.0 (abc1234), 2026-11-27", COMPARISON["command"]])
        self.assertRegex(found["covered"], "^Points of PyTorch with no point of Headroom as small and as fast: 1 of 2$")
        self.assertEqual(found["legend"], [
            *dict.fromkeys(row["technique"] for row in ROWS), "Headroom", "PyTorch",
            "front: none is smaller and faster", "predicted", "not covered by Headroom", "!not as it should be"])
        rows = [row for row in ROWS if row["framework"] == "headroom"]
        ours = self.written("ours.html", {**COMPARISON, "rows": rows})
        found = self.use(ours, 'result.covered = texts("#covered")[0]; result.legend = texts("#legend .line");')
        self.assertEqual(found["covered"], "")
        self.assertNotIn("PyTorch", found["legend"])

    def test_the_table_sorts_and_ends_with_what_was_refused(self):
        found = self.use(self.page, SEARCH + """
            const sorted = () => all("th[aria-sort]").flatMap(head => [head.textContent, head.ariaSort]);
            result.columns = {};
            for (const name of texts("#table th")) {
                press(name);
                const once = column(name), first = sorted();
                press(name);
                result.columns[name] = {once, first, twice: column(name), second: sorted(), notes: column("Notes"),
                                        focus: document.activeElement.textContent};
            }
            press("Peak reserved"); press("Peak reserved");
            result.order = column("Name");""")
        self.assertGreater(len(found["columns"]), 15)
        for name, column in found["columns"].items():
            with self.subTest(column=name):
                (head, first), (_, second) = column["first"], column["second"]
                self.assertEqual((head, column["focus"], {first, second}), (name, name, {"ascending", "descending"}))
                self.assertEqual(sorted(column["once"]), sorted(column["twice"]))
                self.assertEqual(set(column["notes"][-2:]), {"out of memory", f"too small {ODD}"})
        names = found["columns"]["Name"]
        self.assertEqual(names["once"][:-2], sorted(POINTS))
        self.assertEqual(names["twice"][:-2], sorted(POINTS, reverse=True))
        self.assertEqual(found["order"][:-2], ["predicted", "not covered", "more than predicted", "blocks", "worse",
                                               "other bits", "keep all", "eager"])
        self.assertEqual(found["columns"]["Ops recomputed"]["once"][0], "240")

    def test_a_line_of_the_table_has_the_figures_of_its_row(self):
        figures = {"batch": 2, "accumulate": 3, "recompute": "layers", "budget_bytes": 1_500_000_000, "fits": True, "largest_batch": 5,
                   "replayed_ops": 6, "driver_calls": 7, "host_waits": 8, "launches": 9, "peak_bytes_allocated": 2_400_000_000,
                   "bytes": {"parameters": 10_000_000, "gradients": 20_000_000, "optimizer_state": 30_000_000}, "dtype": "bf16", "optimizer": "sgd"}
        rows = [row("headroom", "plan", "all different", 2500, 2.0, **figures),
                row("headroom", "plan", "opposite", 2600, 2.0, fits=False, same_bits=False)]
        found = self.use(self.written("line.html", {**COMPARISON, "rows": rows}), SEARCH + """
            result.line = Object.fromEntries(texts("#table th").map(name => [name, column(name)]));""")["line"]
        expected = {"Framework": "Headroom", "Technique": "plan", "Peak reserved": "2.50 GB", "Peak allocated": "2.40 GB", "sequences/s": "2.00",
                    "Step": "2.00 s", "Type": "bf16", "Optimizer": "sgd", "Batch": "2", "Micro-batches": "3", "Recompute": "layers",
                    "Budget": "1.50 GB", "Fits": "yes", "Largest batch": "5", "parameters": "10.00 MB", "gradients": "20.00 MB",
                    "optimizer state": "30.00 MB", "Loss": "10.500000", "Same bits": "yes", "Ops recomputed": "6",
                    "Driver calls": "7", "Host waits": "8", "Launches": "9"}
        place = found["Name"].index("all different")
        self.assertEqual({name: found[name][place] for name in expected}, expected)
        self.assertEqual([found[name][1 - place] for name in ("Fits", "Same bits")], ["no", "no"])

    def test_a_front_has_the_speed_of_the_smaller_point_until_the_next(self):
        rows = [row("headroom", "baseline", "small", 1000, 3.7), row("headroom", "plan", "large", 3000, 1.3)]  # beside the grid
        found = self.use(self.written("stairs.html", {**COMPARISON, "rows": rows}), SEARCH + """
            pointer(canvas, "pointerleave", 0, 0);
            const {data, width} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const lit = (x, y) => {  // in a colour of its own, somewhere near
                const colours = new Set();
                for (let i = -3; i <= 3; ++i) for (let j = -3; j <= 3; ++j) {
                    const at = 4 * ((Math.round(y) + i) * width + Math.round(x) + j);
                    colours.add(data.slice(at, at + 3).join());
                }
                return colours.size > 1;
            };
            const [small, large] = [places.small, places.large], between = (small[0] + large[0]) / 2, height = (small[1] + large[1]) / 2;
            result.along = [lit(between, small[1]), lit(large[0], height)];
            result.left = lit(small[0], height);""")
        self.assertEqual((found["along"], found["left"]), ([True, True], False))

    def test_a_click_or_enter_marks_the_line_of_a_point(self):
        found = self.use(self.page, SEARCH + """
            const marked = () => all("tr[aria-current=true]").map(line => line.children[2].textContent);
            const picture = () => canvas.toDataURL();
            pointer(canvas, "pointerleave", 0, 0);
            const plain = picture();
            result.none = marked();
            pointer(canvas, "click", ...places.blocks); pointer(canvas, "pointerleave", 0, 0);
            result.clicked = [marked(), tip.querySelector("b").textContent, picture() !== plain];
            press("Name");
            result.sorted = marked();
            pointer(canvas, "click", ...places.blocks);
            result.again = [marked(), tip.hidden, picture() === plain];
            canvas.focus();
            key(canvas, "Home"); result.home = tip.querySelector("b").textContent;
            key(canvas, "ArrowRight"); result.right = tip.querySelector("b").textContent;
            key(canvas, "End"); key(canvas, "ArrowLeft"); result.left = tip.querySelector("b").textContent;
            key(canvas, "Enter"); canvas.blur(); result.enter = [marked(), tip.hidden];
            key(canvas, "Escape"); result.escape = [marked(), tip.hidden];
            all("#legend button").find(button => button.textContent === "plan").click();
            result.alone = [texts("#legend [aria-pressed=true]"), picture() !== plain];
            key(canvas, "Home"); key(canvas, "ArrowRight"); result.only = tip.querySelector("b").textContent;
            move(...places.blocks); result.others = tip.hidden;
            all("#legend [aria-pressed=true]")[0].click();
            result.back = picture() === plain;""")
        self.assertEqual(found["none"], [])
        self.assertEqual(found["clicked"], [["blocks"], "blocks", True])
        self.assertEqual(found["sorted"], ["blocks"])
        self.assertEqual(found["again"], [[], True, True])
        self.assertEqual((found["home"], found["right"], found["left"]), ("predicted", "not covered", "keep all"))
        self.assertEqual((found["enter"], found["escape"]), ([["keep all"], False], [[], True]))
        self.assertEqual((found["alone"], found["only"]), ([["plan"], True], "more than predicted"))
        self.assertEqual((found["others"], found["back"]), (True, True))

    def test_larger_batches_are_listed_from_the_smallest_on(self):
        found = self.use(self.page, """
            result.head = texts("#growth-table thead tr:first-child th");
            result.rows = all("#growth-table tbody tr").map(line => [...line.children].map(cell => cell.textContent));""")
        self.assertEqual(found["head"], ["Batch", *(f"{machine}: {recompute}" for machine in ("a processor", "H100")
                                                    for recompute in ("none", "blocks"))])
        self.assertEqual(found["rows"], [["4", *(["2.00 GB", "8.00", "1.00 GB", "4.00"] * 2)], ["8", *(["4.00 GB", "8.00", "2.00 GB", "4.00"] * 2)],
                                         ["16", *(["8.00 GB", "8.00", "4.00 GB", "4.00"] * 2)]])

    def test_a_peak_below_the_prediction_is_told_as_such(self):
        rows = [row("headroom", "plan", "less", 2100, 2.5, peak_bytes_allocated_predicted=2_101_500_000)]
        point, = self.figures(self.written("less.html", {**COMPARISON, "rows": rows}))["points"]
        self.assertEqual(point["faults"], ["allocated 1.5 MB below the prediction"])

    def test_it_is_light_and_dark(self):
        styles = ("memory/history/page/style.css", "examples/speed/page/style.css")
        light = {name: colour for style in styles for name, colour in browser.light_colours(style).items()}
        seen = []
        for scheme in (0, 1):
            rows, console = browser.screenshot(self.page, 1000, 800, f"--blink-settings=preferredColorScheme={scheme}")
            self.assertEqual(console, [])
            seen.append({pixel for line in rows for pixel in line})
        dark, bright = seen
        names = ("page", "plot", "alert", *(f"technique-{i}" for i in range(4)))
        self.assertEqual([name for name in names if light[name] not in bright], [])
        self.assertEqual([name for name in names if light[name] in dark], [])
        self.assertIn((0x15, 0x17, 0x1a), dark)

    def framed(self, width, page, script):
        """What the script found in a frame: a window is at least 500 pixels wide."""
        outer = os.path.join(self.folder, f"outer_{width}.html")
        with open(self.with_script(page, script), encoding="utf-8") as file:
            frame = f'<iframe width="{width}" height="900" srcdoc="{html.escape(file.read())}"></iframe>'
        with open(outer, "w", encoding="utf-8") as file:
            file.write(f"<!DOCTYPE html><html><body>{frame}{ASK_FRAME}</body></html>")
        found = json.loads(self.load(outer)[0]["data-result"])
        self.assertEqual(found["width"], width)
        return found

    def test_a_narrow_window_scrolls_only_downwards(self):
        found = self.framed(400, self.page, SEARCH + """
            result.width = innerWidth;
            result.points = Object.keys(places);
            result.reach = [document.documentElement.scrollWidth];
            for (const place of Object.values(places)) {
                move(...place);
                const {left, right} = tip.getBoundingClientRect();
                result.reach.push(document.documentElement.scrollWidth, right - Math.min(left, 0));
            }""")
        self.assertEqual(set(found["points"]), POINTS)
        self.assertLessEqual(max(found["reach"]), 400)

    def test_what_a_row_is_chosen_by_is_seen_without_scrolling(self):
        rows = [{**each, "fits": True} for each in ROWS if each["name"] != ODD]
        page = self.written("widths.html", {**COMPARISON, "rows": rows})
        for width, expected in ((1200, {"Framework", "Technique", "Name", "Peak reserved", "sequences/s", "Fits", "Same bits", "Step"}),
                                (400, {"Name", "Peak reserved", "sequences/s"})):
            found = self.framed(width, page, """
                result.width = innerWidth;
                result.seen = all("#table th").filter(head => head.offsetWidth > 0 && head.getBoundingClientRect().right <= innerWidth)
                    .map(head => head.textContent);
                result.below = all("#table td.name").map(cell => getComputedStyle(cell, "::after").content);""")
            self.assertLessEqual(expected, set(found["seen"]))
            said = '"gradient checkpointing, Headroom"' in found["below"]
            self.assertEqual(said, width == 400, "a name's technique stands below it where there is no column for it")

    def test_the_bytes_that_were_asked_about(self):
        red = browser.light_colours("memory/history/page/style.css")["alert"]
        rows = [row("headroom", "baseline", "keep all", 3600, 1.0), row("headroom", "plan", "small", 2500, 2.0)]
        for within, said, drawn in ((3_000_000_000, "Within 3.00 GB: 1 of 2 fit", True),
                                    (1_000_000_000, "Within 1.00 GB: none fits; the smallest, small, takes 2.50 GB", True),
                                    (24_000_000_000, "Within 24.00 GB: 2 of 2 fit", False),  # far to the right of them
                                    (None, "", False)):
            told = [{**each, "fits": within and each["peak_bytes_reserved"] <= within} for each in rows]
            page = self.written("within.html", {**COMPARISON, "rows": told, "within_bytes": within})
            found = self.use(page, """
                result.said = texts("#within")[0];
                const canvas = document.getElementById("plot"), {data, width} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                result.columns = {};  // of red pixels
                for (let at = 0; at < data.length; at += 4) if (data.slice(at, at + 3).join() === "%d,%d,%d")
                    result.columns[at / 4 %% width] = (result.columns[at / 4 %% width] ?? 0) + 1;
                result.width = width;""" % red)
            self.assertEqual(found["said"], said)
            lines = [int(column) for column, count in found["columns"].items() if count > 300]
            self.assertEqual(len(lines), 1 if drawn else 0)
            if drawn:
                expected = 58 + (found["width"] - 58 - 18) * within / (1.08 * 3_600_000_000)
                self.assertAlmostEqual(lines[0], expected, delta=2)

    def test_odd_text_stays_text_and_nothing_comes_from_elsewhere(self):
        found = self.use(self.page, """
            result.title = document.title;
            result.scripts = all("script").length;
            result.names = all("#table tbody tr").map(line => line.children[2].textContent);""")
        self.assertEqual(found["title"], f"{COMPARISON['model']}: memory against speed")
        self.assertEqual(found["scripts"], 3)  # the third is this test's
        self.assertIn(ODD, found["names"])
        with open(self.page, encoding="utf-8") as file:
            page = file.read()
        for part in ("http:", "https:", " src=", " href=", "@import", "@include", "url(", "fetch(", "XMLHttpRequest"):
            self.assertNotIn(part, page)

    def test_rows_without_any_point(self):
        rows = [row("headroom", "plan", "small", refused="too small")]
        page = self.written("none.html", {**COMPARISON, "rows": rows})
        self.assertEqual(self.figures(page), {"points": [], "fronts": {}, "uncovered": []})

    def test_a_folder_that_is_not_there_is_named(self):
        run = self.run_program("/no/such/folder/page.html", COMPARISON)
        self.assertEqual(run.returncode, 1)
        self.assertIn("/no/such/folder/page.html: the page can't be written", run.stderr)


if __name__ == "__main__":
    unittest.main()
