"""The pickle for PyTorch's memory viewer: Python reads it, the viewer's assumptions hold, PyTorch's own reader takes it."""
import importlib.util
import os
import pickle
import pickletools
import unittest

from history_files import CATEGORIES, HistoryCase

# What the viewer's JavaScript knows of what this file may need.
OPCODES = {"PROTO", "STOP", "MARK", "EMPTY_DICT", "SETITEMS", "EMPTY_LIST", "APPENDS", "BINUNICODE", "MEMOIZE", "BINGET",
           "LONG_BINGET", "BININT", "BININT1", "BININT2", "LONG1", "NEWTRUE", "NEWFALSE", "TUPLE2"}


def read(folder, name="snapshot.pickle"):
    with open(os.path.join(folder, name), "rb") as file:
        return pickle.load(file)


def pytorch_reader():
    """torch.cuda._memory_viz without the rest of PyTorch, or None."""
    spec = importlib.util.find_spec("torch")
    path = spec and os.path.join(spec.submodule_search_locations[0], "cuda", "_memory_viz.py")
    if not path or not os.path.exists(path):
        return None
    spec = importlib.util.spec_from_file_location("_memory_viz", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TorchSnapshot(HistoryCase):
    def test_only_opcodes_of_the_viewer_in_small_batches(self):
        folder, _ = self.files()
        with open(os.path.join(folder, "snapshot.pickle"), "rb") as file:
            opcodes = [opcode.name for opcode, _, _ in pickletools.genops(file)]
        self.assertLessEqual(set(opcodes), OPCODES)
        # The viewer spreads a batch over the arguments of one call.
        depth, batch = [], 0
        for name in opcodes:
            if name == "MARK":
                depth.append(0)
            elif name in ("APPENDS", "SETITEMS"):
                batch = max(batch, depth.pop())
            elif name in ("EMPTY_DICT", "EMPTY_LIST") and depth:
                depth[-1] += 1
        self.assertLessEqual(batch, 1000)

    def test_segments_are_tiled_by_blocks_and_add_up(self):
        for options in ({}, {"kept": 700}, {"limit": 480_000_000}):
            with self.subTest(options=options):
                folder, figures = self.files(**options)
                segments = read(folder)["segments"]
                self.assertEqual(sum(s["total_size"] for s in segments), figures["all.reserved"])
                self.assertEqual(sum(s["allocated_size"] for s in segments), figures["all.allocated"])
                self.assertEqual(sum(s["requested_size"] for s in segments), figures["all.requested"])
                for segment in segments:
                    at = segment["address"]
                    for block in segment["blocks"]:
                        self.assertEqual(block["address"], at)
                        self.assertIn(block["state"], ("active_allocated", "inactive"))
                        self.assertEqual(bool(block["frames"]), block["state"] == "active_allocated")
                        at += block["size"]
                    self.assertEqual(at, segment["address"] + segment["total_size"])

    def test_replaying_the_trace_gives_the_figures(self):
        for options in ({}, {"kept": 700}, {"kept": 0}, {"limit": 480_000_000}):
            with self.subTest(options=options):
                folder, figures = self.files(**options)
                [trace] = read(folder)["device_traces"]
                live, total, peak, requested = {}, 0, 0, None
                for entry in trace:
                    if entry["action"] == "alloc":
                        self.assertNotIn(entry["addr"], live)
                        self.assertIn(entry["category"], CATEGORIES)
                        live[entry["addr"]] = entry["size"]
                        total += entry["size"]
                        peak = max(peak, total)
                    elif entry["action"] == "free_requested":
                        total -= live.pop(entry["addr"])
                        requested = entry["addr"]
                    elif entry["action"] == "free_completed":
                        self.assertEqual(entry["addr"], requested)
                self.assertEqual(total, figures["all.allocated"])
                self.assertEqual(peak, figures["all.peak"])
                times = [entry["time_us"] for entry in trace]
                self.assertEqual(times, sorted(times))

    def test_going_backwards_blocks_lie_in_segments(self):
        # The viewer's history of the allocator's state, from the last event to the first.
        folder, _ = self.files()
        snapshot = read(folder)
        [trace] = snapshot["device_traces"]
        page = 2 << 20
        mapped = {at for s in snapshot["segments"] for at in range(s["address"], s["address"] + s["total_size"], page)}
        live = {b["address"]: b["size"] for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"}
        for entry in reversed(trace):
            pages = set(range(entry["addr"], entry["addr"] + entry["size"], page))
            if entry["action"] == "segment_map":
                self.assertLessEqual(pages, mapped)
                mapped -= pages
            elif entry["action"] == "free_completed":
                self.assertNotIn(entry["addr"], live)
                live[entry["addr"]] = entry["size"]
                for at in (entry["addr"], entry["addr"] + entry["size"] - 1):
                    self.assertIn(at // page * page, mapped)
            elif entry["action"] == "alloc":
                del live[entry["addr"]]
        self.assertEqual((live, mapped), ({}, set()))

    def test_frames_are_module_path_category_and_step(self):
        folder, _ = self.files()
        [trace] = read(folder)["device_traces"]
        entry = next(e for e in trace if e["action"] == "alloc" and e["frames"][0]["name"] == "blocks.3.mlp.up"
                     and e["category"] == "activations")
        self.assertEqual([f"{f['filename']}:{f['line']}:{f['name']}" for f in entry["frames"]],
                         ["module:0:blocks.3.mlp.up", "module:0:blocks.3.mlp", "module:0:blocks.3", "module:0:blocks",
                          "category:0:activations", "step:1:"])
        self.assertEqual((trace[-1]["action"], trace[-1]["category"]), ("snapshot", "unknown"))

    def test_categories_are_those_that_were_given(self):
        folder, _ = self.files()
        [trace] = read(folder, "nameless.pickle")["device_traces"]
        self.assertFalse(any("category" in e or any(f["filename"] == "category" for f in e["frames"]) for e in trace))
        [trace] = read(folder, "own.pickle")["device_traces"]
        self.assertEqual({e["category"] for e in trace if "category" in e}, {'"weights"', "</script>", "unknown"})

    def test_older_blocks_come_first(self):
        folder, figures = self.files(kept=700)
        snapshot = read(folder)
        [trace] = snapshot["device_traces"]
        older = trace[:figures["all.older_blocks"]]
        self.assertGreater(len(older), 10)
        self.assertEqual({entry["action"] for entry in older}, {"alloc"})
        self.assertEqual(sum(entry["size"] for entry in older), figures["all.start"])
        self.assertTrue(snapshot["allocator_settings"]["trace_alloc_overflowed"])
        self.assertFalse(read(self.files()[0])["allocator_settings"]["trace_alloc_overflowed"])

    def test_out_of_memory_tells_what_was_left_of_the_budget(self):
        folder, figures = self.files(limit=480_000_000)
        [trace] = read(folder)["device_traces"]
        entry = trace[-2]
        self.assertEqual(entry["action"], "oom")
        self.assertEqual(entry["device_free"], figures["all.limit"] - figures["all.reserved"])
        self.assertGreater(entry["size"], entry["device_free"])

    def test_odd_names_and_nothing_at_all(self):
        folder, _ = self.files()
        names = {f["name"] for e in read(folder, "odd.pickle")["device_traces"][0] for f in e["frames"]}
        for name in ('a "quoted" name', "back\\slash\n\tand\x01", "</script><!--", "\u00fc.\u5c42.\U0001F600", "zero\0",
                     "not\ufffdutf8\ufffd"):
            self.assertIn(name, names)
        nothing = read(folder, "nothing.pickle")
        self.assertEqual(nothing["segments"], [])
        self.assertEqual([e["action"] for e in nothing["device_traces"][0]], ["snapshot"])

    def test_pytorchs_own_reader_takes_it(self):
        viz = pytorch_reader()
        if viz is None:
            self.skipTest("torch is not installed: pip install torch")
        for options in ({}, {"kept": 700}, {"limit": 480_000_000}):
            with self.subTest(options=options):
                folder, figures = self.files(**options)
                snapshot = read(folder)
                summary = viz.segsum(snapshot)  # asserts its sums
                self.assertIn(f"total_reserved: {viz.Bytes(figures['all.reserved'])!r}", summary)
                self.assertIn(f"total_allocated: {viz.Bytes(figures['all.requested'])!r}", summary)
                lines = viz.memory(snapshot, format_flamegraph=lambda lines: lines).splitlines()
                self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in lines), figures["all.reserved"])
                self.assertTrue(any("category:0:parameters;module:0:blocks;module:0:blocks.1;" in line for line in lines))
                self.assertIn("stream_0;seg_", viz.segments(snapshot, format_flamegraph=lambda lines: lines))
                self.assertEqual("raise OutOfMemoryError" in viz.trace(snapshot), "limit" in options)
                for plot in (viz.trace_plot, viz.segment_plot):
                    self.assertIn("add_local_files", plot(snapshot))
                left = [e for e in viz.filter_alloc_free_pairs(snapshot)["device_traces"][0] if e["action"] == "alloc"]
                self.assertEqual(sum(e["size"] for e in left), figures["all.allocated"])


if __name__ == "__main__":
    unittest.main()
