"""docs/speed.svg: memory against speed, of Headroom and of PyTorch, with both fronts. bench/tables.py draws it."""

from chart import OURS, THEIRS, Axis, Chart, Series, stairs
from comparison import front_of, memory_of


def point_of(row):
    """(memory in MB, samples per second)"""
    return memory_of(row) / 1e6, row["samples_per_second"]


def draw(compared):
    ours, theirs = ([point_of(row) for row in compared.rows if row["framework"] == framework] for framework in ("headroom", "pytorch"))
    series = [Series("Headroom", OURS, "circle", ours, stairs(front_of(ours))),
              Series("PyTorch", THEIRS, "square", theirs, stairs(front_of(theirs)), dashed=True)]
    memories, speeds = zip(*ours, *theirs)
    chart = Chart(Axis.from_zero("MB at the peak of a step", memories, ",.0f"),
                  Axis.from_zero(f"{compared.file['samples']} per second", speeds, "g"), series)
    for row, words in ((compared.kept, "keeping all"), (compared.eager, "eager")):
        chart.label(point_of(row), words, (-8, -8), "end")
    chart.legend(series)
    return chart.svg()
