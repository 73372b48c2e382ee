"""What it costs a training to keep its memory's history: train_gpt without and with --memory-history in turn, tokens
per second of each pair, and the median of the pairs' ratios.

    python3 bench/history_cost.py --data FILE --train-gpt build/release/examples/train_gpt --out bench/results
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import tempfile


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--train-gpt", required=True)
    parser.add_argument("--out", required=True, help="folder for the result file")
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--steps", type=int, default=100)
    flags = parser.parse_args()

    def tokens_per_second(folder, *more):
        out = pathlib.Path(folder) / "run.json"
        # Stopped before the end, so that no validation follows.
        command = [flags.train_gpt, "--data", flags.data, "--steps", str(flags.steps + 1)]
        command += ["--stop-after", str(flags.steps), "--json", str(out), *more]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text(encoding="utf-8"))["tokens_per_second"]

    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(flags.pairs):
            without = tokens_per_second(folder)
            kept = tokens_per_second(folder, "--memory-history", str(pathlib.Path(folder) / "history.html"))
            pairs.append({"without": without, "with": kept, "ratio": without / kept})
            print(f"{without:.0f} tokens/s without, {kept:.0f} with: {without / kept:.4f}")
    result = {
        "what": f"train_gpt's default configuration, {flags.steps} steps, without and with --memory-history",
        "date": datetime.date.today().isoformat(),
        "median_ratio": statistics.median(pair["ratio"] for pair in pairs),
        "pairs": pairs,
    }
    path = pathlib.Path(flags.out) / "history_cost.json"
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"median {result['median_ratio']:.4f}, written to {path}")


if __name__ == "__main__":
    main()
