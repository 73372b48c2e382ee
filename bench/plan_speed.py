"""How fast plans are: against the ways of recomputing by hand at the same memory, against keeping all, and against what was
predicted from measured costs. Runs alternate.

    python3 bench/plan_speed.py --data FOLDER --examples build/release/examples --out bench/results
"""

import argparse
import datetime
import json
import math
import pathlib
import statistics
import tempfile

from runs import cpu_name, figures_of, write_result

PAIRS = 5  # against ways by hand, and in given memory
PAGE = 2 << 20
FEWER = 3  # of the many budgets that predictions are compared for
# Of a step of PyTorch 2.15 eager, f32, SGD with momentum: measured by bench/peers/train.py: U-Net 1 x 768 x 768, and
# ResNet-50 with 8 images of 224 x 224, for 32: weights, momentum and gradients once, the rest four times.
TORCH_PEAKS = {"unet": 3643425480, "resnet50": 4 * (956763856 - 306684384) + 306684384}
FIGURES = ("batch", "accumulate", "peak_bytes_reserved", "peak_bytes_reserved_predicted", "replayed_ops_predicted", "step_seconds_predicted")


class Program:
    """A training program on short data, with costs that are measured once."""

    def __init__(self, name, flags, ways, steps, folder, examples):
        self.name, self.ways, self.steps = name, ways, steps
        self.command = [str(pathlib.Path(examples) / flags[0]), *flags[1:]]
        self.costs, self.plan = str(folder / f"{name}.costs.json"), str(folder / f"{name}.plan.json")
        self.run("--calibrate", self.costs)

    def run(self, *more, steps=1):
        print(self.name, *more, flush=True)
        return figures_of([*self.command, "--steps", str(steps), *map(str, more)])

    def predicted(self, *more):
        return self.run("--device", "dry", "--costs", self.costs, *more)

    def planned(self, budget):
        return self.predicted("--budget", budget, "--save-plan", self.plan)

    def pairs(self, *sides, count=PAIRS):
        """Figures of alternating runs of the two sides."""
        runs = [[self.run("--costs", self.costs, *side, steps=self.steps) for side in sides] for _ in range(count)]
        seconds = [[run["step_seconds"] for run in pair] for pair in runs]
        ratios = [first / second for first, second in seconds]
        return {"ratios": ratios, "median_ratio": statistics.median(ratios),
                "step_seconds": [statistics.median(side) for side in zip(*seconds)]}

    def against_ways(self):
        """A plan in the memory of each way by hand, against it."""
        result = {}
        for way in self.ways:
            by_hand = self.predicted("--recompute", way)
            plan = self.planned(by_hand["peak_bytes_reserved_predicted"])
            result[way] = {"by_hand": {name: by_hand[name] for name in FIGURES}, "plan": {name: plan[name] for name in FIGURES},
                           "predicted_ratio": plan["step_seconds_predicted"] / by_hand["step_seconds_predicted"],
                           "time_of_plan_over_by_hand": self.pairs(("--plan", self.plan), ("--recompute", way))}
        return result

    def against_prediction(self, budgets):
        """Plans from the least budget to that of keeping all, each against keeping all."""
        whole = self.planned(self.predicted("--recompute", self.ways[0])["peak_bytes_reserved_predicted"])
        floor, keep_all = whole["floor_bytes"], whole["keep_all_bytes"]
        kept = self.predicted("--recompute", self.ways[0])["step_seconds_predicted"]
        rows = []
        for budget in sorted({floor + (keep_all - floor) * i // (budgets - 1) for i in range(budgets)}):
            plan = self.planned(budget)
            measured = self.pairs(("--plan", self.plan), ("--recompute", self.ways[0]), count=FEWER)
            ratio = plan["step_seconds_predicted"] / kept
            rows.append({"budget_bytes": budget, **{name: plan[name] for name in FIGURES}, "predicted_ratio": ratio,
                         "measured_ratio": measured["median_ratio"],
                         "ratio_predicted_over_measured": ratio / measured["median_ratio"],
                         "seconds_predicted_over_measured": plan["step_seconds_predicted"] / measured["step_seconds"][0]})
        of = lambda name: statistics.median(abs(row[name] - 1) for row in rows)
        return {"median_error_of_ratio": of("ratio_predicted_over_measured"),
                "median_error_of_seconds": of("seconds_predicted_over_measured"), "budgets": rows}

    def at(self, share, peak=None):
        """A plan in that share of `peak`, or of what keeping all allocates for activations, in whole pages, against keeping all."""
        kept = self.predicted("--recompute", self.ways[0])
        resident = 0 if peak else kept["resident_bytes"]
        budget = resident + share * ((peak or kept["peak_bytes_predicted"]) - resident)
        budget = math.ceil(budget / PAGE) * PAGE
        plan = self.planned(budget)
        return {"share": share, "budget_bytes": budget, **{name: plan[name] for name in FIGURES},
                "predicted_ratio": plan["step_seconds_predicted"] / kept["step_seconds_predicted"],
                "time_over_keeping_all": self.pairs(("--plan", self.plan), ("--recompute", self.ways[0]))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="folder with tinyshakespeare.txt and MNIST's test images")
    parser.add_argument("--examples", required=True, help="folder of the programs")
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--only", nargs="*", help="names of programs; the file keeps what it has of others")
    parser.add_argument("--budgets", type=int, default=16)
    flags = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="headroom-"))
    text = folder / "text.txt"  # short, so that validations are
    text.write_bytes((pathlib.Path(flags.data) / "tinyshakespeare.txt").read_bytes()[:40000])
    gpt_ways = ("none", "cheap", "mlp", "blocks")
    image_ways = ("none", "cheap", "blocks")
    programs = {
        "gpt_12_blocks": (("train_gpt", "--data", str(text), "--layers", "12"), gpt_ways, 16),
        "gpt": (("train_gpt", "--data", str(text)), gpt_ways, 24),
        "perceptron_40_layers": (("train_images", "--data", flags.data, "--model", "mlp", "--layers", "40"), image_ways, 24),
        "resnet18": (("train_images", "--data", flags.data, "--model", "resnet18", "--height", "64", "--width", "64"), image_ways, 6),
        "unet": (("train_segmentation",), image_ways, 8),
        "lstm": (("train_text", "--model", "lstm", "--data", str(text), "--bytes"), ("none", "layers"), 8),
        "resnet50_large": (("train_images", "--data", flags.data, "--model", "resnet50", "--batch", "32", "--height", "224", "--width", "224",
                            "--optimizer", "sgd", "--validation", "32"), image_ways, 4),
        "unet_large": (("train_segmentation", "--height", "768", "--width", "768", "--batch", "1", "--base-width", "64", "--optimizer", "sgd",
                        "--clouds", "2", "--validation", "1"), image_ways, 2)}
    given = {"gpt_12_blocks": (0.264,), "resnet50_large": (0.46, TORCH_PEAKS["resnet50"]), "unet_large": (0.49, TORCH_PEAKS["unet"])}
    result = {"what": "plans for the memory of each way of recomputing by hand, against it; for budgets from the least one, against keeping "
                      "all; and for a share of PyTorch's peak or of the activations, against keeping all: medians of alternating runs on "
                      "a CPU; predictions are by costs that were measured beforehand",
              "pairs": {"ways": PAIRS, "budgets": FEWER},
              "torch_peak_bytes": TORCH_PEAKS}
    before = pathlib.Path(flags.out) / "plan_speed.json"
    if flags.only and before.exists():
        result = {**json.loads(before.read_text(encoding="utf-8")), **result}
    for name, (command, ways, steps) in programs.items():
        if flags.only and name not in flags.only:
            continue
        program = Program(name, command, ways, steps, folder, flags.examples)
        row = result[name] = {"cpu": cpu_name(), "date": datetime.date.today().isoformat()}
        if name in given:
            row["in_given_memory"] = program.at(*given[name])
        if not name.endswith("_large"):
            row["against_ways"] = program.against_ways()
            row["against_prediction"] = program.against_prediction(flags.budgets)
        write_result(flags.out, "plan_speed.json", result)


if __name__ == "__main__":
    main()
