"""docs/speed.svg: memory against speed, of Headroom and of PyTorch, with both fronts. bench/tables.py draws it."""

import math

from chart import INK, OURS, THEIRS, Chart
from comparison import front_of, memory_of


def points_of(rows, framework):
    """(memory in MB, samples per second, technique, name)."""
    found = [(memory_of(row), row) for row in rows if row["framework"] == framework]
    return sorted((memory / 1e6, row["samples_per_second"], row["technique"], row["name"]) for memory, row in found)


def step_of(value):
    """A round one: some eight of them make `value`."""
    ten = 10 ** math.floor(math.log10(value / 8))
    return next(ten * digit for digit in (1, 2, 5, 10) if 8 * ten * digit >= value)


def draw(compared):
    ours, theirs = (points_of(compared.rows, framework) for framework in ("headroom", "pytorch"))
    most, fastest = (1.08 * max(point[axis] for point in ours + theirs) for axis in (0, 1))
    chart = Chart((0, most, step_of(most)), (0, fastest, step_of(fastest)), "{:,.0f}".format, "{:g}".format)
    chart.titles("MB at the peak of a step", f"{compared.file['samples']} per second")
    for points, fill, draw_point in ((theirs, THEIRS, chart.square), (ours, OURS, chart.circle)):
        front = front_of(points)
        stairs = [corner for before, after in zip(front, front[1:]) for corner in (before[:2], (after[0], before[1]))]
        chart.line([*stairs, front[-1][:2]], fill, dashed=points is theirs)
        for memory, speed, *_ in points:
            draw_point(memory, speed, fill)
    kept = next(point for point in ours if point[2] == "baseline")
    eager = next(point for point in theirs if point[2] == "baseline")
    for memory, speed, words in ((*kept[:2], "keeping all"), (*eager[:2], "eager")):
        chart.text(chart.x(memory) - 8, chart.y(speed) - 8, words, "end", INK)
    chart.legend([("Headroom", OURS), ("PyTorch", THEIRS)])
    return chart.svg()
