"""docs/time.svg, README's: the time of a step against its memory, in GB, for each way to do the same training. Headroom's line
goes on where PyTorch's points end. bench/tables.py draws it."""

import operator

from chart import OURS, THEIRS, Axis, Chart, Series
from comparison import front_of, memory_of


def points_of(compared, framework):
    """(memory in GB, seconds of a step) of each technique that does the same training."""
    batch = compared.file["effective_batch"]
    return sorted((memory_of(row) / 1e9, batch / row["samples_per_second"]) for row in compared.same_training(framework))


def draw(compared, title):
    ours, theirs = (points_of(compared, framework) for framework in ("headroom", "pytorch"))
    fronts = [front_of(points, operator.lt) for points in (ours, theirs)]
    series = [Series("Headroom", OURS, "circle", ours, fronts[0], width=3),
              Series("PyTorch", THEIRS, "square", theirs, fronts[1], dashed=True)]
    memories, times = zip(*ours, *theirs)
    chart = Chart(Axis.around("GB at the peak of a step", memories, 0.05, ".2f"),
                  Axis.from_zero(f"seconds of a step: {title}", times, ".1f"), series)
    end = theirs[0][0]
    chart.band(chart.axes[0].low, end, OURS)
    chart.label((end, 0), "PyTorch ends here", (8, -12), "start", THEIRS)
    heights = fronts[0][-1][1], fronts[1][max(len(fronts[1]) // 2 - 1, 0)][1]
    for each, front, height, down in zip(series, fronts, heights, (24, 0)):
        chart.label(((front[0][0] + front[-1][0]) / 2, height), each.name, (0, down), fill=each.fill, size=18)
    return chart.svg()
