"""GPT-2's training step in PyTorch on a GPU, as bench/gpu/gpt2_step.cpp times it in Headroom: same sizes, random tokens,
autocast (for f16 with a gradient scaler), fused AdamW, clipping; eager or compiled. Prints one JSON object, by the names of
gpt2_step; what is not finite in it is null.

    python3 bench/peers/gpt2_torch.py --dtype bf16 --batch 64 --steps 20 [--compile]
"""

import argparse
import contextlib
import json
import pathlib
import sys
import time

import torch

from host_time import queueing_seconds
from tokens import Gpt
from training import adamw

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from runs import finite  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", choices=["f32", "bf16", "f16"], default="bf16")
    parser.add_argument("--compile", action="store_true")
    sizes = dict(batch=8, time=1024, layers=12, heads=12, width=768, vocabulary=50304, warmup=5, steps=20)
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    flags = parser.parse_args()
    device = torch.device("cuda")
    torch.manual_seed(1)
    model = Gpt(flags.vocabulary, flags.time, flags.layers, flags.heads, flags.width).to(device)
    optimizer = adamw(model, rate=1e-4, decay=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=flags.dtype == "f16")
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}.get(flags.dtype)
    run = torch.compile(model) if flags.compile else model
    ids, targets = (torch.randint(0, flags.vocabulary, (flags.batch, flags.time)) for _ in range(2))

    def step():
        x, y = ids.to(device, non_blocking=True), targets.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext():
            loss = run(x, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return loss

    begin = time.perf_counter()
    loss = step()
    torch.cuda.synchronize()
    first_step = time.perf_counter() - begin
    for _ in range(1, flags.warmup):
        loss = step()
    first = loss.item()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(flags.steps):
        loss = step()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    host = queueing_seconds(step, torch.cuda.synchronize, flags.steps)
    free, total = torch.cuda.mem_get_info()
    print(json.dumps(finite({
        "framework": "torch " + torch.__version__ + (" compiled" if flags.compile else " eager"),
        "dtype": flags.dtype, "batch": flags.batch, "time": flags.time,
        "tokens_per_second": round(flags.steps * flags.batch * flags.time / seconds),
        "milliseconds_per_step": round(1e3 * seconds / flags.steps, 3),
        "host_milliseconds_per_step": round(1e3 * host, 3), "first_step_milliseconds": round(1e3 * first_step, 1),
        "loss": round(loss.item(), 4), "loss_after_warmup": round(first, 4),
        "peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.max_memory_reserved(),
        "used": total - free - torch.cuda.memory_reserved()})))


if __name__ == "__main__":
    main()
