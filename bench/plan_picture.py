"""docs/plans.svg, from the figures of bench/plan_speed.py: a step's time against the memory that it takes, for plans and for the
ways of recomputing by hand. bench/tables.py draws it."""

import math

from chart import OURS, THEIRS, Chart


def draw(row):
    """One point for each plan by what it reserves: of budgets with the same plan, the first."""
    plans = {}
    for plan in row["against_prediction"]["budgets"]:
        plans.setdefault(plan["peak_bytes_reserved_predicted"] / 1e6, (plan["measured_ratio"], plan["predicted_ratio"]))
    kept = row["against_ways"]["none"]["by_hand"]["step_seconds_predicted"]
    ways = {}
    for way, figures in row["against_ways"].items():
        by_hand = figures["by_hand"]
        ways[way] = (by_hand["peak_bytes_reserved_predicted"] / 1e6, by_hand["step_seconds_predicted"] / kept)
    xs = [*plans, *(x for x, _ in ways.values())]
    ys = [y for pair in plans.values() for y in pair] + [y for _, y in ways.values()]
    left, right = 5 * math.floor(min(xs) / 5), 5 * math.ceil(max(xs) / 5)
    low, high = 0.1 * math.floor(min(ys) / 0.1), 0.1 * math.ceil(max(ys) / 0.1)
    chart = Chart((left, right, 10), (low, high, 0.1), "{:.0f}".format, "{:.1f}".format)
    chart.titles("MB reserved at the peak", "time of a step, over keeping all")
    chart.line([(x, predicted) for x, (_, predicted) in sorted(plans.items())], OURS, dashed=True)
    for x, (measured, _) in sorted(plans.items()):
        chart.circle(x, measured, OURS)
    for way, (x, y) in ways.items():
        chart.square(x, y, THEIRS)
        chart.text(chart.x(x), chart.y(y) - 10, way, fill=THEIRS)
    chart.legend([("plans, measured; dashed: as predicted", OURS), ("by hand, as predicted", THEIRS)])
    return chart.svg()
