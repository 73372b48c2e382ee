"""What it costs a training to keep its memory's history: train_gpt without and with --memory-history in turn, tokens
per second of each pair, and the median of the pairs' ratios.

    python3 bench/history_cost.py --data FILE --train-gpt build/release/examples/train_gpt --out bench/results
"""

import argparse
import pathlib
import statistics
import tempfile

from runs import figures_of, write_result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--train-gpt", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--steps", type=int, default=100)
    flags = parser.parse_args()

    def tokens_per_second(*more):
        # Stopped before the end, so that no validation follows.
        command = [flags.train_gpt, "--data", flags.data, "--steps", str(flags.steps + 1)]
        return figures_of([*command, "--stop-after", str(flags.steps), *more])["tokens_per_second"]

    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(flags.pairs):
            without = tokens_per_second()
            kept = tokens_per_second("--memory-history", str(pathlib.Path(folder) / "history.html"))
            pairs.append({"without": without, "with": kept, "ratio": without / kept})
            print(f"{without:.0f} tokens/s without, {kept:.0f} with: {without / kept:.4f}")
    result = {
        "what": f"train_gpt's default configuration, {flags.steps} steps, without and with --memory-history",
        "median_ratio": statistics.median(pair["ratio"] for pair in pairs),
        "pairs": pairs,
    }
    path = write_result(flags.out, "history_cost.json", result)
    print(f"median {result['median_ratio']:.4f}, written to {path}")


if __name__ == "__main__":
    main()
