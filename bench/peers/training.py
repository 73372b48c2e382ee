"""A training in PyTorch on random data, its loop as the guides write it, and what it takes in time and memory."""

import functools
import gc
import signal
import statistics
import time

import torch
from torch._functorch import config as functorch
from torch.utils.checkpoint import checkpoint

from profiled_peak import profiled_peak

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def adamw(model, rate=1e-3, betas=(0.9, 0.999), decay=0.01):
    """As Headroom's: matrices decay, vectors do not."""
    matrices, vectors = ([p for p in model.parameters() if (p.dim() >= 2) == matrix] for matrix in (True, False))
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=betas, fused=True)


class Training:
    """`make` is a family's: it returns the model, whose call is the loss, a micro-batch, and the blocks that gradient
    checkpointing computes again."""

    def __init__(self, make, flags):
        torch.manual_seed(1)
        self.device, self.accumulate, self.dtype = torch.device(flags.device), flags.accumulate, DTYPES.get(flags.dtype)
        self.model, self.batch, blocks = make(flags, self.device)
        if flags.technique == "gradient checkpointing":
            for block in blocks:
                block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
        functorch.activation_memory_budget = 1.0 if flags.fraction is None else flags.fraction
        self.run = torch.compile(self.model) if flags.compiled else self.model
        if flags.optimizer == "adamw":
            self.optimizer = adamw(self.model)
        else:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9, fused=True)
        self.scaler = torch.amp.GradScaler(flags.device, enabled=flags.dtype == "f16")

    def step(self):
        """The loss. Each micro-batch has the same samples."""
        total = 0.0
        for _ in range(self.accumulate):
            with torch.autocast(self.device.type, self.dtype, enabled=self.dtype is not None):
                loss = self.run(*self.batch) / self.accumulate
            self.scaler.scale(loss).backward()
            total += loss.detach()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return total.item()


def give_up(*_):
    raise TimeoutError


def trained(make, flags, steps):
    """The training, its last loss, and the seconds of each step. Errors: TimeoutError if one but the first, which may compile,
    takes more than flags.longest seconds: autocast on a processor without its dtype takes that of a hundred steps."""
    training, loss, seconds = Training(make, flags), None, []
    signal.signal(signal.SIGALRM, give_up)
    for step in range(steps):
        begin = time.perf_counter()
        signal.alarm(flags.longest if step > 0 else 0)
        loss = training.step()
        signal.alarm(0)
        seconds.append(time.perf_counter() - begin)
    return training, loss, seconds


def measured(make, flags):
    """What train.py prints. On a CPU, the peak is that of a training of its own: the profiler takes time."""
    torch.set_num_threads(flags.threads)
    allocated = reserved = None
    if flags.device == "cpu" and flags.peak:
        allocated = profiled_peak(lambda: trained(make, flags, 2))
        gc.collect()
    training, loss, seconds = trained(make, flags, flags.steps)
    if flags.device == "cuda":
        allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    return {
        "framework": f"torch {torch.__version__.split('+', maxsplit=1)[0]}",
        "parameters": sum(p.numel() for p in training.model.parameters()),
        "step_seconds": statistics.median(seconds[len(seconds) // 2:]),
        "peak_bytes_allocated": allocated,
        "peak_bytes_reserved": reserved,
        "loss": loss,
    }
