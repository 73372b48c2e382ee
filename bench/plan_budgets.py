"""Trains train_gpt with 12 blocks for a few steps within several budgets, and with the ways of recomputing by hand, and writes
down what each one reserves at its peak beside what was predicted, and that no plan changes a bit.

    python3 bench/plan_budgets.py --data FILE --train-gpt build/release/examples/train_gpt --out bench/results
"""

import argparse
import pathlib
import tempfile

from runs import figures_of, write_result

FIGURES = ("budget_bytes", "batch", "accumulate", "replayed_ops", "replayed_ops_predicted", "peak_bytes_reserved",
           "peak_bytes_reserved_predicted", "peak_bytes_allocated", "peak_bytes_predicted", "step_seconds_predicted", "state_sha256")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--train-gpt", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--budgets", type=int, default=9, help="from the least that there is a plan for to what keeping all takes")
    parser.add_argument("--steps", type=int, default=3)
    flags = parser.parse_args()

    def train(*more):
        figures = figures_of([flags.train_gpt, "--data", text.name, "--layers", "12", "--threads", "1", "--steps", str(flags.steps), *map(str, more)])
        print(*more, figures["peak_bytes_reserved"], flush=True)
        return figures

    text = tempfile.NamedTemporaryFile(suffix=".txt")  # short, so that validations are
    text.write(pathlib.Path(flags.data).read_bytes()[:40000])
    text.flush()
    ways = {way: train("--recompute", way) for way in ("none", "cheap", "mlp", "blocks")}
    result = {"what": "train_gpt --layers 12, on a CPU, with budgets for its peak of reserved bytes, and with ways of recomputing by hand. "
                      "step_seconds_predicted is by rates that are assumed: it compares plans",
              "steps": flags.steps}
    for name, batch in (("may_split", ()), ("keep_batch", ("--keep-batch",))):
        whole = train("--budget", "4GiB", *batch)
        floor, keep_all = whole["floor_bytes"], whole["keep_all_bytes"]
        budgets = [floor + (keep_all - floor) * i // (flags.budgets - 1) for i in range(flags.budgets)]
        plans = [train("--budget", budget, *batch) for budget in budgets]
        hashes = {}
        for plan in plans:
            division = (plan["batch"], plan["accumulate"])
            if division not in hashes:
                hashes[division] = train("--recompute", "none", "--batch", division[0], "--accumulate", division[1])["state_sha256"]
        result[name] = {
            "floor_bytes": floor, "keep_all_bytes": keep_all,
            "all_within_budget": all(plan["peak_bytes_reserved"] <= plan["budget_bytes"] for plan in plans),
            "all_as_predicted": all(plan["peak_bytes_reserved"] == plan["peak_bytes_reserved_predicted"] and
                                    plan["replayed_ops"] == plan["replayed_ops_predicted"] for plan in plans),
            "all_with_the_bits_of_keeping_all": all(plan["state_sha256"] == hashes[plan["batch"], plan["accumulate"]] for plan in plans),
            "plans": [{figure: plan[figure] for figure in FIGURES} for plan in plans]}
    result["by_hand"] = {way: {figure: run[figure] for figure in FIGURES} for way, run in ways.items()}
    print("written to", write_result(flags.out, "plan_gpt_12_blocks.json", result))


if __name__ == "__main__":
    main()
