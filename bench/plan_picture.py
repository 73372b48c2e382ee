"""Draws docs/plans.svg from the figures of bench/plan_speed.py: a step's time against the memory that it takes, for plans and for the
ways of recomputing by hand.

    python3 bench/plan_picture.py --result bench/results/plan_speed.json --program gpt_12_blocks --out docs/plans.svg
"""

import argparse
import json
import math
import pathlib

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 64, 20, 20, 48
INK, PLANS, HAND = "#222", "#0b62a4", "#c4501b"


def ticks(low, high, step):
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def text(x, y, words, anchor="middle", fill=INK):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{words}</text>'


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
    x_of = lambda x: LEFT + (x - left) / (right - left) * (WIDTH - LEFT - RIGHT)
    y_of = lambda y: HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for y in ticks(low, high, 0.1):
        parts.append(f'<path d="M{LEFT} {y_of(y):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(text(LEFT - 8, y_of(y) + 4, f"{y:.1f}", "end"))
    for x in ticks(left, right, 10):
        parts.append(text(x_of(x), HEIGHT - BOTTOM + 20, f"{x:.0f}"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "MB reserved at the peak"))
    parts.append(text(LEFT, TOP - 6, "time of a step, over keeping all", "start"))
    line = " ".join(f"{x_of(x):.1f},{y_of(predicted):.1f}" for x, (_, predicted) in sorted(plans.items()))
    parts.append(f'<polyline points="{line}" fill="none" stroke="{PLANS}" stroke-dasharray="4 3"/>')
    for x, (measured, _) in sorted(plans.items()):
        parts.append(f'<circle cx="{x_of(x):.1f}" cy="{y_of(measured):.1f}" r="4" fill="{PLANS}"/>')
    for way, (x, y) in ways.items():
        parts.append(f'<rect x="{x_of(x) - 4:.1f}" y="{y_of(y) - 4:.1f}" width="8" height="8" fill="{HAND}"/>')
        parts.append(text(x_of(x), y_of(y) - 10, way, fill=HAND))
    for i, (words, fill) in enumerate((("plans, measured; dashed: as predicted", PLANS), ("by hand, as predicted", HAND))):
        parts.append(text(WIDTH - RIGHT - 6, TOP + 18 + 18 * i, words, "end", fill))
    return "\n".join([*parts, "</svg>\n"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--result", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--out", required=True)
    flags = parser.parse_args()
    result = json.loads(pathlib.Path(flags.result).read_text(encoding="utf-8"))
    pathlib.Path(flags.out).write_text(draw(result[flags.program]), encoding="utf-8")


if __name__ == "__main__":
    main()
