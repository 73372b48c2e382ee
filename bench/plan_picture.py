"""docs/plans.svg, from the figures of bench/plan_speed.py: a step's time against the memory that it takes, for plans and for the
ways of recomputing by hand. bench/tables.py draws it."""

from chart import OURS, THEIRS, Axis, Chart, Series


def draw(row):
    """One point for each plan by what it reserves: of budgets with the same plan, the first."""
    plans = {}
    for plan in row["against_prediction"]["budgets"]:
        plans.setdefault(plan["peak_bytes_reserved_predicted"] / 1e6, (plan["measured_ratio"], plan["predicted_ratio"]))
    kept = row["against_ways"]["none"]["by_hand"]["step_seconds_predicted"]
    by_hand = {way: figures["by_hand"] for way, figures in row["against_ways"].items()}
    ways = {way: (figures["peak_bytes_reserved_predicted"] / 1e6, figures["step_seconds_predicted"] / kept) for way, figures in by_hand.items()}
    measured, predicted = ([(x, ratios[i]) for x, ratios in sorted(plans.items())] for i in (0, 1))
    series = [Series("plans, measured; dashed: as predicted", OURS, "circle", measured, predicted, dashed=True),
              Series("by hand, as predicted", THEIRS, "square", list(ways.values()))]
    xs, ys = zip(*measured, *predicted, *ways.values())
    chart = Chart(Axis.around("MB reserved at the peak", xs, 10, ".0f"), Axis.around("time of a step, over keeping all", ys, 0.1, ".1f"), series)
    for way, point in ways.items():
        chart.label(point, way, (0, -10), fill=THEIRS)
    chart.legend(series)
    return chart.svg()
