"""The Trace Event JSON for Perfetto and chrome://tracing: valid, complete, and true to the figures."""
import json
import os
import re
import unittest

from history_files import CATEGORIES, HistoryCase


class ChromeTrace(HistoryCase):
    def read(self, name="trace.json", **options):
        folder, figures = self.files(**options)
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return json.load(file)["traceEvents"], figures

    def counters(self, events, name):
        return [(e["ts"], e["args"]) for e in events if e["ph"] == "C" and e["name"] == name]

    def test_every_event_has_what_its_phase_needs(self):
        events, _ = self.read(limit=480_000_000)
        self.assertGreater(len(events), 1000)
        self.assertEqual(events[0]["ph"], "M")
        for event in events[1:]:
            self.assertIn(event["ph"], "Ci")
            self.assertIsInstance(event["ts"], float)
            self.assertEqual(event["pid"], 1)
            if event["ph"] == "C":
                self.assertTrue(event["args"])
                self.assertTrue(all(isinstance(value, int) and value >= 0 for value in event["args"].values()))
            elif event["ph"] == "i":
                self.assertIn(event["s"], "gpt")
        times = [event["ts"] for event in events[1:]]
        self.assertEqual(times, sorted(times))

    def test_counters_have_the_peak_and_end_at_the_present_figures(self):
        for options in ({}, {"kept": 700}, {"kept": 0}, {"limit": 480_000_000}):
            with self.subTest(options=options):
                events, figures = self.read(**options)
                live = [args for _, args in self.counters(events, "live bytes")]
                self.assertEqual(max(sum(args.values()) for args in live), figures["all.peak"])
                self.assertEqual(sum(live[0].values()), figures["all.start"])
                self.assertEqual(sum(live[-1].values()), figures["all.allocated"])
                peak = next(args for args in live if sum(args.values()) == figures["all.peak"])
                for category in CATEGORIES:
                    self.assertEqual(peak.get(category, 0), figures[f"all.peak.{category}"])
                self.assertEqual(self.counters(events, "reserved bytes")[-1][1], {"reserved": figures["all.reserved"]})

    def test_all_series_of_a_counter_are_in_each_of_its_events(self):
        events, _ = self.read()
        self.assertEqual(len({tuple(args) for _, args in self.counters(events, "live bytes")}), 1)

    def test_steps_and_failures_are_instants(self):
        events, figures = self.read(limit=480_000_000)
        instants = [e for e in events if e["ph"] == "i"]
        self.assertEqual([e["name"] for e in instants[:-1]], ["setup", "step 1", "step 2"])
        refused = re.fullmatch(r"out of memory: (\d+) bytes", instants[-1]["name"])
        self.assertGreater(int(refused[1]), figures["all.limit"] - figures["all.reserved"])

    def test_categories_are_those_that_were_given(self):
        events, figures = self.read("nameless.json", limit=480_000_000)
        live = [args for _, args in self.counters(events, "live bytes")]
        self.assertEqual({tuple(args) for args in live}, {("other",)})
        self.assertEqual(max(args["other"] for args in live), figures["all.peak"])
        events, _ = self.read("own.json", limit=480_000_000)
        peak = max((args for _, args in self.counters(events, "live bytes")), key=lambda args: sum(args.values()))
        self.assertEqual(peak, {'"weights"': figures["all.peak.parameters"], "</script>": figures["all.peak.gradients"],
                                "other": sum(figures[f"all.peak.{name}"] for name in CATEGORIES[2:])})

    def test_odd_names_and_nothing_at_all(self):
        events, _ = self.read("odd.json", limit=480_000_000)
        self.assertEqual(events[0]["args"]["name"], 'Headroom: memory of a "device" </script>')
        events, _ = self.read("nothing.json")
        self.assertEqual([e["name"] for e in events if e["ph"] != "M"], 2 * ["live bytes", "reserved bytes"])


if __name__ == "__main__":
    unittest.main()
