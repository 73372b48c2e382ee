#!/usr/bin/env python3
"""What several processes cost and save. `memory`: what each of them takes of GPT-2 124M, rehearsed. `speed`: train_gpt by two
processes of one thread each and by one of two threads, in turn; with --peers PyTorch's DistributedDataParallel as well.

usage: bench/processes.py memory|speed --train-gpt PROGRAM --out FOLDER [--data TEXT] [--peers PYTHON] [--pairs N]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from runs import ROOT, cpu_name, figures_of, write_result

SHARDS = ("none", "state", "gradients")
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np")
GPT2 = ("--layers", "12", "--heads", "12", "--width", "768", "--block", "1024", "--batch", "1", "--accumulate", "8", "--steps", "10")


def memory(flags):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        tokens = pathlib.Path(folder) / "tokens.u16"  # a rehearsal reads none of them
        tokens.write_bytes(bytes(2 * 50_000))
        for processes in (1, 2, 4, 8):
            for shard in SHARDS if processes > 1 else ("none",):
                command = [flags.train_gpt, "--data", tokens, "--tokens", "u16", *GPT2, "--shard", shard, "--device", "dry"]
                ranks = figures_of([*command, "--ranks", str(processes)])["ranks"]
                largest = {name: max(rank[name] for rank in ranks)
                           for name in ("peak_bytes_predicted", "peak_bytes_reserved_predicted", "parameter_bytes", "optimizer_state_bytes")}
                rows.append({"processes": processes, "shard": shard, **largest})
    command = f"train_gpt --tokens u16 {' '.join(GPT2)} --shard SHARD --device dry --ranks N"
    what = "the most that one of several processes takes of GPT-2 124M's training, 8 micro-batches of 1 x 1024 tokens, rehearsed"
    return write_result(flags.out, "processes_memory.json", {"what": what, "command": command, "rows": rows})


def speed(flags):
    cases = {}
    for width, steps in (("128", "60"), ("768", "4")):
        training = ("--data", flags.data, "--width", width, "--batch", "4", "--accumulate", "8", "--dropout", "0.1", "--steps", "100",
                    "--stop-after", steps)
        together = [*MPIRUN, "2", flags.train_gpt, *training, "--threads", "1"]
        alone = [flags.train_gpt, *training, "--threads", "2"]
        rows = []
        for _ in range(flags.pairs):
            one, two = (figures_of(command)["tokens_per_second"] for command in (alone, together))
            row = {"one process of two threads": one, "two processes of one thread": two, "ratio": two / one}
            if flags.peers:
                row |= beside_torch(flags, width, steps)
            rows.append(row)
            print(row, flush=True)
        names = [name for name in rows[0] if "ratio" in name]
        cases[f"width {width}"] = {f"median {name}": statistics.median(row[name] for row in rows) for name in names} | {"pairs": rows}
    what = "train_gpt, --batch 4 --accumulate 8 --dropout 0.1: tokens per second of two processes relative to one, in turn"
    if flags.peers:
        what += "; and without dropout and recomputation relative to PyTorch's DistributedDataParallel over Gloo"
    return write_result(flags.out, "processes_speed.json", {"what": what, "processor": cpu_name(), **cases})


def beside_torch(flags, width, steps):
    """Without dropout, which that model has not; by two processes of one thread each."""
    ours = figures_of([*MPIRUN, "2", flags.train_gpt, "--data", flags.data, "--width", width, "--batch", "4", "--accumulate", "8", "--steps",
                       "100", "--stop-after", steps, "--threads", "1", "--recompute", "none"])["tokens_per_second"]
    theirs = json.loads(subprocess.run([flags.peers, ROOT / "bench/peers/ddp_torch.py", "--width", width, "--steps", steps], check=True,
                                       stdout=subprocess.PIPE).stdout)["tokens_per_second"]
    return {"Headroom": ours, "DistributedDataParallel": theirs, "ratio to PyTorch": ours / theirs}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("what", choices=("memory", "speed"))
    parser.add_argument("--train-gpt", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--data", help="a text, for `speed`")
    parser.add_argument("--peers", metavar="PYTHON", help="a python3 that can import torch")
    parser.add_argument("--pairs", type=int, default=5)
    flags = parser.parse_args()
    if flags.what == "speed" and not flags.data:
        parser.error("speed needs --data")
    print(f"written to {memory(flags) if flags.what == 'memory' else speed(flags)}")


if __name__ == "__main__":
    main()
