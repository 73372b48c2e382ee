"""A GPT's training steps in PyTorch on several processes of one machine, by DistributedDataParallel over Gloo, on CPUs: as
bench/processes.py times them in Headroom. Gradients are exchanged behind the last micro-batch alone. Prints one JSON object.

    python3 bench/peers/ddp_torch.py --processes 2 --threads 1 --batch 4 --accumulate 8 --steps 30
"""

import argparse
import contextlib
import json
import os
import statistics
import time

import torch
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

from tokens import Gpt
from training import adamw


def train(rank, flags):
    """Of one process; the first prints."""
    torch.set_num_threads(flags.threads)
    distributed.init_process_group("gloo", rank=rank, world_size=flags.processes)
    torch.manual_seed(1)
    model = Gpt(flags.vocabulary, flags.block, flags.layers, flags.heads, flags.width)
    optimizer = adamw(model, rate=1e-3, decay=0.1)
    parallel = DistributedDataParallel(model)
    own = flags.accumulate // flags.processes
    seconds = []
    for _ in range(flags.steps):
        begin = time.perf_counter()
        for number in range(own):
            ids = torch.randint(flags.vocabulary, (flags.batch, flags.block))
            with contextlib.nullcontext() if number + 1 == own else parallel.no_sync():
                (parallel(ids, ids) / own).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        step = statistics.median(seconds[len(seconds) // 4:])
        tokens = flags.accumulate * flags.batch * flags.block
        print(json.dumps({"framework": f"torch {torch.__version__} DistributedDataParallel over Gloo", "tokens_per_second": tokens / step}))
    distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    sizes = dict(processes=2, threads=1, batch=4, accumulate=8, steps=30, layers=4, heads=4, width=128, block=64, vocabulary=65)
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000))
    flags = parser.parse_args()
    multiprocessing.spawn(train, (flags,), flags.processes)


if __name__ == "__main__":
    main()
