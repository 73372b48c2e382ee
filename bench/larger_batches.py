"""How well memory_speed tells the time of larger batches from times that it measured at one: for six models, a step of 2, 4 and 8
times the batch over a step of the batch, as predicted and as measured. One thread; trainings of all batches take turns.

    python3 bench/larger_batches.py --examples build/release/examples --out bench/results
"""

import argparse
import datetime
import pathlib
import statistics

from runs import cpu_name, figures_of, write_result

TIMES = (2, 4, 8)
MODELS = {
    "gpt": ("--effective-batch", 2, "--layers", 4, "--block", 128),
    "bert": ("--effective-batch", 1, "--block", 32),
    "lstm": ("--effective-batch", 4, "--block", 64),
    "mlp": ("--effective-batch", 32,),
    "resnet18": ("--effective-batch", 2, "--height", 128, "--width", 128),
    "unet": ("--effective-batch", 1, "--height", 64, "--width", 64),
}


class Model:
    def __init__(self, name, flags, program):
        self.name, self.batch, self.program = name, flags[1], program
        self.flags = [str(flag) for flag in flags[2:]]

    def figures(self, times, rounds):
        print(self.name, times * self.batch, flush=True)
        return figures_of([self.program, "--model", self.name, "--effective-batch", str(times * self.batch), *self.flags, "--techniques",
                           "baseline", "--threads", "1", "--rounds", str(rounds), "--steps", "4"])

    def row(self, rounds):
        calibrated = self.figures(1, 3)
        predicted = {row["batch"]: row["step_seconds_predicted"] for row in calibrated["larger"]
                     if row["machine"] != "H100" and row["recompute"] == "none"}
        steps = {times: [] for times in (1, *TIMES)}
        for _ in range(rounds):
            for times, seconds in steps.items():
                seconds.append(self.figures(times, 1)["rows"][0]["step_seconds"])
        ratios = []
        for times in TIMES:
            ratio = predicted[times * self.batch] / predicted[self.batch]
            measured = [many / one for many, one in zip(steps[times], steps[1])]
            ratios.append({"times": times, "predicted": ratio, "measured": statistics.median(measured), "measured_runs": measured,
                           "predicted_over_measured": ratio / statistics.median(measured)})
        return {"date": datetime.date.today().isoformat(), "inputs": calibrated["inputs"], "batch": self.batch,
                "step_seconds": statistics.median(steps[1]), "step_seconds_predicted": predicted[self.batch], "ratios": ratios}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", required=True, help="folder of the programs")
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--only", nargs="*", default=list(MODELS), choices=MODELS)
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args()
    rows = {}
    for name in flags.only:
        rows[name] = Model(name, MODELS[name], str(pathlib.Path(flags.examples) / "memory_speed")).row(flags.rounds)
        print(name, [round(ratio["predicted_over_measured"], 3) for ratio in rows[name]["ratios"]], flush=True)
        write_result(flags.out, "larger_batches.json",
                     {"what": "a step of several times the batch over a step of the batch: predicted from times of the batch, and measured",
                      "cpu": cpu_name(), "threads": 1, "models": rows})


if __name__ == "__main__":
    main()
