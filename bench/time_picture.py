"""docs/time.svg, README's: the time of a step against its memory, in GB, for each way to do the same training. Headroom's line
goes on where PyTorch's points end. bench/tables.py draws it."""

import math
import operator

from chart import OURS, THEIRS, Chart
from comparison import front_of, memory_of

MARGIN, STEP = 0.02, 0.05  # of the memory's axis, in GB


def points_of(compared, framework):
    """(memory in GB, seconds of a step) of each technique that does the same training."""
    batch = compared.file["effective_batch"]
    return sorted((memory_of(row) / 1e9, batch / row["samples_per_second"]) for row in compared.same_training(framework))


def draw(compared, title):
    ours, theirs = (points_of(compared, framework) for framework in ("headroom", "pytorch"))
    memories = [memory for memory, _ in ours + theirs]
    left = STEP * math.floor((min(memories) - MARGIN) / STEP)
    right = STEP * math.ceil((max(memories) + MARGIN) / STEP)
    slowest = 0.5 * math.ceil(1.05 * max(seconds for _, seconds in ours + theirs) / 0.5)
    chart = Chart((left, right, STEP), (0, slowest, 0.5), "{:.2f}".format, "{:.1f}".format)
    chart.titles("GB at the peak of a step", f"seconds of a step: {title}")
    end, fronts = min(theirs)[0], [front_of(points, operator.lt) for points in (theirs, ours)]
    chart.band(left, end, OURS)
    chart.text(chart.x(end) - 8, chart.y(0) - 12, "PyTorch ends here", "end", THEIRS)
    chart.line(fronts[0], THEIRS, dashed=True)
    chart.line(fronts[1], OURS, width=3)
    for points, fill, mark in ((theirs, THEIRS, chart.square), (ours, OURS, chart.circle)):
        for memory, seconds in points:
            mark(memory, seconds, fill)
    for front, words, fill in ((fronts[0], "PyTorch", THEIRS), (fronts[1], "Headroom", OURS)):
        above = fill == THEIRS
        seconds = front[max(len(front) // 2 - 1, 0)][1] if above else front[-1][1]
        chart.text(chart.x((front[0][0] + front[-1][0]) / 2), chart.y(seconds) + (0 if above else 24), words, fill=fill, size=18)
    return chart.svg()
