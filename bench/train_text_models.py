"""Trains train_text's three models in their default configuration and writes down what they reached: the loss over the
whole validation split, BERT's share of hidden tokens that it guessed, the memory predicted and measured, wall and CPU
seconds. On a machine that others use, CPU seconds say more.

    python3 bench/train_text_models.py --data FILE --train-text build/release/examples/train_text --out bench/results
"""

import argparse
import datetime
import os

from runs import figures_of, write_result


def cpu_seconds():
    times = os.times()
    return times.children_user + times.children_system


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--train-text", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--models", nargs="+", default=["lstm", "gru", "bert"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    runs = []
    for model in flags.models:
        before = cpu_seconds()
        command = [flags.train_text, "--data", flags.data, "--model", model, "--threads", str(flags.threads),
                   "--seed", str(flags.seed)]
        figures = figures_of(command)
        runs.append({"model": model, "cpu_seconds": round(cpu_seconds() - before, 1), **figures})
        print(f"{model}: validation loss {figures['val_loss']:.4f}, {runs[-1]['cpu_seconds']} s of processors", flush=True)
    result = {
        "what": "train_text in its default configuration, loss over the whole validation split",
        "date": datetime.date.today().isoformat(),
        "threads": flags.threads,
        "load_average": os.getloadavg()[1],
        "runs": runs,
    }
    print(write_result(flags.out, "text_models.json", result))


if __name__ == "__main__":
    main()
