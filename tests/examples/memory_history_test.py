"""What a run's memory looks like as a file: train_gpt --memory-history."""
import json
import pathlib
import pickle
import unittest

from program import ProgramCase


class MemoryHistory(ProgramCase):
    program = "train_gpt"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = cls.write("text.txt", "the quick brown fox jumps over the lazy dog\n" * 100)
        cls.flags = ("--data", cls.text, "--layers", "2", "--heads", "2", "--width", "32", "--block", "16", "--batch",
                     "4", "--threads", "2")

    def test_a_page_tells_the_measured_peak(self):
        page = self.path("memory.html")
        figures = self.figures("--steps", 3, "--memory-history", page)
        text = pathlib.Path(page).read_text(encoding="utf-8")
        self.assertIn(str(figures["peak_bytes_allocated"]), text)
        self.assertNotIn("http", text.replace("http://www.w3.org", ""), "needs a network")
        self.assertIn('"rehearsed":false', text)
        self.succeeds("--steps", 3, "--device", "dry", "--memory-history", page)
        self.assertIn('"rehearsed":true', pathlib.Path(page).read_text(encoding="utf-8"), "its times say nothing")

    def test_a_pickle_and_a_trace_hold_every_event(self):
        snapshot, trace = self.path("memory.pickle"), self.path("memory.json")
        self.succeeds("--steps", 3, "--memory-history", snapshot)
        self.succeeds("--steps", 3, "--memory-history", trace)
        events = pickle.loads(pathlib.Path(snapshot).read_bytes())["device_traces"][0]
        allocated = sum(event["action"] == "alloc" for event in events)
        freed = sum(event["action"] == "free_completed" for event in events)
        self.assertGreater(allocated, 100)
        self.assertEqual(allocated, freed, "the training is over")
        names = {event.get("name") for event in json.loads(pathlib.Path(trace).read_text())["traceEvents"]}
        self.assertGreater(len(names), 3)

    def test_a_history_changes_nothing(self):
        plain = self.figures("--steps", 3)
        kept = self.figures("--steps", 3, "--memory-history", self.path("memory.html"))
        for figure in ("state_sha256", "peak_bytes_allocated", "peak_bytes_reserved"):
            self.assertEqual(kept[figure], plain[figure])

    def test_a_refused_run_leaves_its_history(self):
        page = pathlib.Path(self.path("refused.html"))
        self.fails(3, ["--batch", 64, "--memory-limit", 3_000_000, "--memory-history", page], "out of memory")
        self.assertTrue(page.is_file())

    def test_a_file_of_another_kind_is_wrong_usage(self):
        self.fails(2, ["--memory-history", self.path("memory.txt")], "must end with .html, .json or .pickle")
        self.fails(1, ["--memory-history", self.path("missing/memory.html")], "--memory-history")


if __name__ == "__main__":
    unittest.main()
