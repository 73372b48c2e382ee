#!/usr/bin/env python3
"""Predicts the peak memory of GPT-2 124M's training on a GPU of 141 GB, by rehearsals: on any machine, in seconds.

usage: bench/rehearse_gpt2.py PROGRAM FILE

PROGRAM   gpt2_step, which builds with CUDA and those with the emulator have in bench/gpu, or gpt2_estimate
FILE      where the result goes: bench/results/gpt2_rehearsed.json
"""
import json
import subprocess
import sys

from runs import write_result


def rehearsed(program, dtype, batch, *flags):
    command = [program, "--device", "dry", "--dtype", dtype, "--batch", str(batch), *flags]
    row = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    names = {name: f"--{name.replace('_', '-')}" in flags for name in ("half_residual", "graphs")}
    return {"dtype": dtype, "batch": batch, **names, **{key: row[key] for key in ("predicted_allocated", "predicted_reserved")}}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    program, file = sys.argv[1:]
    rows = [rehearsed(program, "bf16", batch, *flags)
            for batch in (64, 16, 4) for flags in ((), ("--graphs",), ("--half-residual",))]
    rows += [rehearsed(program, dtype, 64) for dtype in ("f16", "f32")]
    what = ("peak memory of a GPT-2 124M training step, T = 1024, nothing recomputed, predicted by a rehearsal of a GPU of 141 GB "
            "on a machine without one; not measured on a GPU")
    result = {"what": what, "command": "gpt2_step --device dry --dtype DTYPE --batch BATCH [--half-residual] [--graphs]", "rows": rows}
    write_result("", file, result)


if __name__ == "__main__":
    main()
