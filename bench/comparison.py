"""Rows of memory_speed --peers, and how Headroom's and PyTorch's compare."""

import json
import operator
import pathlib
import statistics

RESULTS = pathlib.Path(__file__).resolve().parent / "results"


def result(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


class Comparison:
    """Rows of memory_speed --peers."""

    def __init__(self, model):
        self.name = f"memory_speed_{model}"
        self.file = result(self.name)
        self.rows = [row for row in self.file["rows"] if row["refused"] is None]
        self.eager = self.row("pytorch", "baseline")
        self.kept = self.row("headroom", "baseline")

    def row(self, framework, technique):
        """The first one."""
        return next(row for row in self.rows if (row["framework"], row["technique"]) == (framework, technique))

    def cheap(self):
        """Without norms and the like, which are computed again."""
        return self.row("headroom", "gradient checkpointing")

    def checkpointed(self, framework):
        """The smallest by gradient checkpointing, if the model has any."""
        rows = [row for row in self.rows if (row["framework"], row["technique"]) == (framework, "gradient checkpointing")]
        return min(rows, key=allocated, default=None)

    def same_training(self, framework):
        """Those with f32, the same optimizer and the same samples in a step, in one micro-batch or in several."""
        batch = self.file["effective_batch"]
        return [row for row in self.rows if row["framework"] == framework and row["dtype"] == "f32" and
                row["optimizer"] == self.kept["optimizer"] and row["batch"] * row["accumulate"] == batch]

    def smallest(self, framework):
        return min(self.same_training(framework), key=memory_of)

    def uncovered(self):
        """PyTorch's points, and those of them for which there is no point of Headroom that is as small and as fast."""
        ours, theirs = ([row for row in self.rows if row["framework"] == framework] for framework in ("headroom", "pytorch"))
        covers = lambda a, b: memory_of(a) <= memory_of(b) and a["samples_per_second"] >= b["samples_per_second"]
        return theirs, [row for row in theirs if not any(covers(other, row) for other in ours)]


def front_of(points, better=operator.gt):
    """Of points (memory, figure, ...), from the smallest memory on: those whose figure no smaller one reaches."""
    front = []
    for point in sorted(points):
        if not front or better(point[1], front[-1][1]):
            front.append(point)
    return front


def memory_of(row):
    """Reserved; of PyTorch on a CPU, which reserves nothing, allocated."""
    return row["peak_bytes_reserved"] or row["peak_bytes_allocated"]


def allocated(row):
    return row["peak_bytes_allocated"]


def faster(row, other):
    """How many times as fast, by the pairs of the rounds."""
    return statistics.median(b / a for a, b in zip(row["step_seconds_runs"], other["step_seconds_runs"]))
