"""The HTML report in a real browser: it draws, its figures are those of the history, it can be used."""
import json
import os
import re
import unittest
from collections import Counter

import browser
from history_files import CATEGORIES, HistoryCase


def bytes_text(count):
    """As headroom::format_bytes."""
    if count < 10000:
        return f"{count} B"
    value, unit = count / 1000, 0
    while value >= 999.95:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {['kB', 'MB', 'GB', 'TB'][unit]}"


class HtmlReport(HistoryCase, browser.PageCase):
    def test_its_figures_are_those_of_the_history(self):
        for options in ({}, {"kept": 700}, {"limit": 480_000_000}):
            with self.subTest(options=options):
                folder, expected = self.files(**options)
                root, tags = self.load(os.path.join(folder, "report.html"))
                self.assertEqual(tags.count("canvas"), 4)
                for figures, name in zip(json.loads(root["data-figures"]), ("all", "checkpoint"), strict=True):
                    self.assertEqual(figures["events"], expected[f"{name}.events"])
                    self.assertEqual(figures["first"], expected[f"{name}.start"])
                    self.assertEqual(figures["peak"], expected[f"{name}.peak"])
                    self.assertEqual(figures["peakEvents"], expected[f"{name}.peak_events"])
                    self.assertEqual(figures["last"], expected[f"{name}.allocated"])
                    self.assertEqual(figures["reserved"], expected[f"{name}.reserved"])
                    self.assertEqual(figures["liveAtPeak"], expected[f"{name}.peak"])
                    self.assertEqual(figures["byCategory"], [expected[f"{name}.peak.{category}"] for category in CATEGORIES] + [0])

    def test_its_text_names_the_figures(self):
        folder, expected = self.files()
        found = self.use(os.path.join(folder, "report.html"), """
            result.titles = texts(".panel h2");
            result.terms = texts(".panel:first-child dt");
            result.figures = texts(".panel:first-child dd");
            result.others = texts(".panel:last-child dd");
            result.sums = texts("tfoot td");
            result.moments = texts(".moment p");""")
        self.assertEqual(found["titles"], ["keep all", "--recompute blocks"])
        self.assertEqual(found["terms"], ["Peak of live bytes", "Peak reserved", "Budget", "Live at the end", "Rounding at the peak"])
        figures = ["peak", "reserved", "limit", "allocated", "peak_rounding"]
        for name, texts in (("all", found["figures"]), ("checkpoint", found["others"])):
            for figure, text in zip(figures, texts):
                self.assertTrue(text.startswith(bytes_text(expected[f"{name}.{figure}"]) + " "), (name, figure, text))
        less = 1 - expected["checkpoint.peak"] / expected["all.peak"]
        self.assertIn(f"{100 * less:.1f} % below keep all", found["others"][0])
        self.assertEqual((found["sums"][1], found["sums"][3]),
                         (bytes_text(expected["all.peak"]), bytes_text(expected["checkpoint.peak"])))
        self.assertIn(f"step 2, {bytes_text(expected['all.peak'])} live", found["moments"][0])

    def test_each_category_covers_its_share_of_the_chart(self):
        folder, _ = self.files()
        light = browser.light_colours("memory/history/page/style.css") | browser.light_colours("memory/history/report/style.css")
        page = self.with_script(os.path.join(folder, "single.html"), """
            for (const e of all("header, #legend, #details, .hint, .panel > div")) e.style.display = "none";
            window.dispatchEvent(new Event("resize"));""")
        width, height = 1000, 460
        rows, console = browser.screenshot(page, width, height, "--blink-settings=preferredColorScheme=1")
        self.assertEqual(console, [])
        counts = Counter(pixel for row in rows for pixel in row)

        def pixels(name):
            colour = light[f"category-{CATEGORIES.index(name)}"]
            faint = [tuple(round((c + w) / 2) + d for c, w in zip(colour, (255, 255, 255))) for d in (-1, 0, 1)]
            return counts[colour] + sum(counts[f] for f in set(faint))

        with open(os.path.join(folder, "trace.json"), encoding="utf-8") as file:
            events = [e for e in json.load(file)["traceEvents"] if e["name"] == "live bytes"]
        area = Counter()
        for event, after in zip(events, events[1:]):
            for category, value in event["args"].items():
                area[category] += value * (after["ts"] - event["ts"])
        whole, drawn = sum(area.values()), sum(pixels(category) for category in CATEGORIES)
        self.assertGreater(drawn, 0.2 * width * height)
        for category in CATEGORIES:
            with self.subTest(category=category):
                # A row of pixels here or there, and what the lines cover.
                self.assertAlmostEqual(pixels(category) / drawn, area[category] / whole, delta=0.02)
        self.assertGreater(counts[light["alert"]], 0.3 * width)

    def test_categories_are_those_that_were_given(self):
        folder, expected = self.files()
        script = """
            result.legend = texts("#legend button");
            result.heads = texts("thead th");
            result.modules = texts("tbody td.path");
            pointer(all(".panel canvas")[0], "pointermove", 400, 120); await drawn();
            result.tip = document.getElementById("tip").textContent;
            for (const b of all("#views button")) if (b.textContent.startsWith("Blocks")) b.click();
            result.blocks = texts("thead th");
            result.byCategory = JSON.parse(document.documentElement.dataset.figures).map(f => f.byCategory);"""
        found = self.use(os.path.join(folder, "nameless.html"), script)
        self.assertEqual(found["legend"], ["live"])
        self.assertEqual(found["heads"], ["Module", "Live", "Share", ""])
        self.assertEqual(found["blocks"], ["Module", "Bytes", "Rounding", "Op", "Allocated", "Given back"])
        self.assertEqual(found["byCategory"], [[expected["all.peak"]]])
        self.assertNotRegex(json.dumps(found), "categor|parameters|activations")
        found = self.use(os.path.join(folder, "own.html"), script)
        self.assertEqual(found["legend"], ["parameters", "</script>", "optimizer state", '"weights"', "gradients", "inputs",
                                           "activations", "workspace", "no category"])
        peak = [expected[f"all.peak.{category}"] for category in CATEGORIES]
        self.assertEqual(found["byCategory"], [peak + [0, 0, 0], [0] * 6 + peak[:2] + [sum(peak[2:])]])
        self.assertIn("(no module) inputs", found["modules"])
        found = self.use(os.path.join(folder, "single.html"), script)
        self.assertEqual(found["legend"], ["parameters", "optimizer state", "gradients", "inputs", "activations", "workspace"])

    def test_moments_can_be_chosen(self):
        folder, _ = self.files()
        found = self.use(os.path.join(folder, "single.html"), """
            const canvas = all(".panel canvas")[0], moment = () => texts(".moment p")[0], heading = () => texts(".moment h2")[0];
            result.peak = [heading(), moment()];
            pointer(canvas, "pointerdown", 300, 100, {button: 0});
            pointer(canvas, "pointerup", 300, 100, {button: 0});
            await drawn();
            result.chosen = [heading(), moment()];
            result.sum = texts("tfoot td")[1];
            all(".moment button")[0].click();
            await drawn();
            result.back = [heading(), moment()];
            key(canvas, "ArrowRight"); key(canvas, "Enter");
            await drawn();
            result.byKey = heading();
            key(canvas, "p");
            await drawn();
            result.again = [heading(), moment()];""")
        self.assertEqual(found["peak"][0], "At the peak")
        self.assertEqual(found["chosen"][0], "At the chosen moment")
        self.assertIn(found["sum"] + " live", found["chosen"][1])
        self.assertNotEqual(found["chosen"][1], found["peak"][1])
        self.assertEqual((found["back"], found["again"]), (found["peak"], found["peak"]))
        self.assertEqual(found["byKey"], "At the chosen moment")

    def test_zooming_dragging_and_pointing(self):
        folder, _ = self.files()
        found = self.use(os.path.join(folder, "report.html"), """
            const canvas = all(".panel canvas")[1], reset = document.getElementById("reset"), tip = document.getElementById("tip");
            const picture = () => canvas.toDataURL();
            const whole = picture();
            result.atFirst = reset.disabled;
            pointer(canvas, "wheel", 400, 100, {deltaY: -500}); await drawn();
            const near = picture();
            result.wheel = [reset.disabled, near !== whole];
            pointer(canvas, "pointerdown", 400, 100, {button: 0});
            pointer(canvas, "pointermove", 300, 100); pointer(canvas, "pointerup", 300, 100); await drawn();
            result.drag = picture() !== near;
            result.stillPeak = texts(".moment h2");
            pointer(canvas, "pointermove", 400, 120); await drawn();
            result.tip = [tip.hidden, tip.textContent];
            pointer(canvas, "pointerleave", 400, 120); await drawn();
            result.left = tip.hidden;
            key(canvas, "Escape"); await drawn();
            result.escape = [reset.disabled, picture() === whole];
            key(canvas, "+"); await drawn(); result.plus = reset.disabled;
            key(canvas, "-"); await drawn(); result.minus = reset.disabled;
            all("[value=events]")[0].click(); await drawn();
            result.events = picture() !== whole;
            document.getElementById("peak").click(); await drawn();
            result.stepOfPeak = reset.disabled;""")
        self.assertEqual(found["atFirst"], True)
        self.assertEqual(found["wheel"], [False, True])
        self.assertEqual((found["drag"], found["stillPeak"]), (True, ["keep all: at the peak", "--recompute blocks: at the peak"]))
        self.assertFalse(found["tip"][0])
        self.assertRegex(found["tip"][1], r"ms, step \d.*parameters19\.1 MBlive\d+\.\d MBreserved\d+\.\d MB")
        self.assertEqual((found["left"], found["escape"]), (True, [True, True]))
        self.assertEqual((found["plus"], found["minus"], found["events"], found["stepOfPeak"]), (False, True, True, False))

    def test_tables_sort_group_and_list_blocks(self):
        folder, expected = self.files()
        found = self.use(os.path.join(folder, "report.html"), """
            const press = text => all("button").find(b => b.textContent === text).click();
            const column = n => texts(`tbody td:nth-child(${n})`);
            result.rows = column(1).length;
            press("keep all");
            result.down = column(2).slice(0, 3);
            press("Live");
            result.up = column(2).slice(-3).reverse();
            press("Module");
            result.names = column(1);
            document.getElementById("fold").click();
            document.getElementById("depth").value = "1";
            document.getElementById("depth").dispatchEvent(new Event("change"));
            result.grouped = column(1);
            result.shares = column(3);
            press("Blocks of --recompute blocks");
            result.blocks = texts("caption")[0];
            result.largest = all("tbody tr")[0].textContent;
            result.steps = all("tbody tr").map(row => row.textContent);""")
        self.assertEqual(found["rows"], 50)
        self.assertEqual(found["down"], found["up"])
        self.assertEqual(found["names"], sorted(found["names"]))
        self.assertEqual(found["grouped"], ["(no module) inputs", "blocks", "token_embedding"])
        self.assertAlmostEqual(sum(float(share.strip("< %")) for share in found["shares"]), 100, delta=0.2)
        self.assertRegex(found["blocks"], r"^\d+ blocks, at the peak$")
        self.assertRegex(found["largest"], r"^blocks\.\d\.mlp\.\w+16\.8 MB60 Bactivations\d+\.\d\d ms, step 2")
        self.assertTrue(any(", setup" in text for text in found["steps"]), found["steps"])
        self.assertFalse(any("step 0" in text for text in found["steps"]))
        self.assertGreater(expected["checkpoint.peak"], 0)

    def test_a_refused_run_opens_at_the_refused_request(self):
        folder, expected = self.files(limit=480_000_000)
        found = self.use(os.path.join(folder, "single.html"), """
            result.moment = [texts(".moment h2")[0], texts(".moment p")[0]];
            result.near = !document.getElementById("reset").disabled;
            result.budget = texts(".panel .note")[0];
            all(".moment button")[0].click();
            await drawn();
            result.peak = texts(".moment h2")[0];""")
        self.assertEqual(found["moment"][0], "At the refused request")
        self.assertRegex(found["moment"][1], r"MB more for \S+ were refused$")
        self.assertTrue(found["near"], "the step of the request fills the chart")
        pages = expected["all.limit"] // (2 << 20)
        self.assertIn(f"of the limit of 481.0 MB, {pages} pages of 2.1 MB are the budget", found["budget"])
        self.assertEqual(found["peak"], "At the peak")

    def test_a_rehearsal_has_an_axis_of_events_and_no_times(self):
        folder, expected = self.files(limit=480_000_000)
        ask = """
            const canvas = all(".panel canvas")[0], axis = document.getElementById("axis");
            result.axis = [axis.disabled, axis.querySelector(":checked").value];
            result.terms = texts(".panel dt");
            pointer(canvas, "pointermove", 300, 100); await drawn();
            result.tip = document.getElementById("tip").innerText;
            result.moment = texts(".moment p")[0];
            all("button").find(b => b.textContent.startsWith("Blocks")).click();
            result.largest = all("tbody tr")[0].textContent;"""
        computed, rehearsed = (self.use(os.path.join(folder, name), ask) for name in ("single.html", "rehearsed.html"))
        self.assertEqual((computed["axis"], rehearsed["axis"]), ([False, "time"], [True, "events"]))
        self.assertEqual([{"Budget", "Available"} & set(found["terms"]) for found in (computed, rehearsed)], [{"Budget"}, {"Available"}])
        for told in ("tip", "moment", "largest"):
            self.assertRegex(computed[told], r"\d [mµn]?s\b")
            self.assertNotRegex(rehearsed[told], r"\d [mµn]?s\b")
            self.assertRegex(rehearsed[told], r"event [\d,]+")

    def test_long_steps_are_folded(self):
        folder, _ = self.files(steps=6)
        found = self.use(os.path.join(folder, "validation.html"), """
            const canvas = all(".panel canvas")[0], tip = document.getElementById("tip"), box = document.getElementById("folds");
            const times = async () => {
                const told = [];
                for (let x = 80; x < 1000; x += 60) {
                    pointer(canvas, "pointermove", x, 100); await drawn();
                    told.push(tip.hidden ? "" : tip.innerText);
                }
                return told;
            };
            result.offered = !document.getElementById("folding").hidden;
            const folded = canvas.toDataURL();
            result.folded = await times();
            box.click(); await drawn();
            result.whole = await times();
            result.other = canvas.toDataURL() !== folded;
            box.click();
            all("[value=events]")[0].click(); await drawn();
            result.events = await times();""")
        self.assertTrue(found["offered"] and found["other"])

        def steps(told):
            return {match.group(1) for match in (re.search(r"step (\d+)", text) for text in told) if match}

        self.assertGreaterEqual(len(steps(found["folded"])), 4, "every step has its room")
        self.assertLessEqual(len(steps(found["whole"])), 3, "one step fills the chart")
        self.assertGreaterEqual(len(steps(found["events"])), 4)
        folder, _ = self.files()
        self.assertTrue(self.use(os.path.join(folder, "single.html"), 'result.hidden = document.getElementById("folding").hidden;')["hidden"])

    def test_blocks_are_rectangles_that_tell_what_they_are(self):
        folder, _ = self.files()
        found = self.use(os.path.join(folder, "single.html"), """
            const canvas = all(".panel canvas")[0], tip = document.getElementById("tip"), levels = canvas.toDataURL();
            all("[name=shape]")[1].click(); await drawn();
            result.other = canvas.toDataURL() !== levels;
            result.tips = [];
            for (let y = 30; y < 350; y += 40) for (let x = 100; x < 900; x += 200) {
                pointer(canvas, "pointermove", x, y); await drawn();
                result.tips.push(tip.innerText);
            }
            pointer(canvas, "pointerleave", 400, 120);
            all("[name=shape]")[0].click(); await drawn();
            result.back = canvas.toDataURL() === levels;""")
        self.assertEqual((found["other"], found["back"]), (True, True))
        told = [tip for tip in found["tips"] if "given back" in tip]
        self.assertGreater(len(told), 5)
        for tip in told:
            self.assertRegex(tip, r"(?s)^[\d.]+ [kM]B, \w+.*module\s+\S.*op\s+feed_forward\s+requested\s+[\d,]+ bytes\s+allocated\s+\d.*given back")
        self.assertTrue(any("blocks." in tip for tip in told))

    def test_other_reports_can_be_added(self):
        folder, expected = self.files()
        found = self.use(os.path.join(folder, "single.html"), """
            const add = async (name, text) => {
                const files = new DataTransfer(), input = document.getElementById("files");
                files.items.add(new File([text], name));
                input.files = files.files;
                Blob.prototype.text = async () => text;  // reading takes no time that the browser is given
                input.dispatchEvent(new Event("change"));
                await drawn();
            };
            await add("other.html", document.documentElement.outerHTML);
            result.titles = texts(".panel h2");
            result.tables = texts("#views button");
            result.figures = JSON.parse(document.documentElement.dataset.figures).map(f => f.peak);
            await add("notes.html", "<p>no report</p>");
            result.problem = texts("#problem")[0];
            result.still = all(".panel").length;""")
        self.assertEqual(found["titles"], ["keep all", "keep all (other.html)"])
        self.assertEqual(found["tables"][0], "Compare modules")
        self.assertEqual(found["figures"], 2 * [expected["all.peak"]])
        self.assertEqual((found["problem"], found["still"]), ("notes.html is not a memory report", 2))

    def test_odd_names_stay_text_and_empty_histories_are_drawn(self):
        folder, _ = self.files()
        page = os.path.join(folder, "odd.html")
        found = self.use(page, """
            result.scripts = all("script").length;
            result.bold = all("b").length;
            result.titles = texts(".panel h2");
            result.names = texts("td.path");
            result.notes = texts(".panel .note");""")
        self.assertEqual((found["scripts"], found["bold"]), (3, 0))  # the third is this test's
        self.assertEqual(found["titles"], ['</script><b>"odd" \U0001F600', "no events", "nothing"])
        for name in ('a "quoted" name', "</script><!--", "\u00fc.\u5c42.\U0001F600", "not\ufffdutf8\ufffd"):
            self.assertIn(name, found["names"])
        self.load(os.path.join(folder, "none.html"))
        self.assertEqual(len([note for note in found["notes"] if note.startswith("No events were kept")]), 2)

    def test_a_peak_older_than_the_events_is_told(self):
        folder, expected = self.files(kept=100)
        self.assertGreater(expected["all.allocated"], 0)
        found = self.use(os.path.join(folder, "single.html"), 'result.notes = texts(".panel .note");')
        self.assertRegex(found["notes"][-1], r"^The peak came before the last 100 events")
        self.assertIn(bytes_text(expected["all.peak"]), found["notes"][-1])


if __name__ == "__main__":
    unittest.main()
