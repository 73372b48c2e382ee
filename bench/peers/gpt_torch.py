"""The GPT of train_gpt in PyTorch, eager, with fused AdamW: same architecture, sizes, optimizer, schedule and data order
by chance. Prints one JSON object. PyTorch is a peer to compare with, not a dependency: pip install torch==2.15.0.

    python3 bench/peers/gpt_torch.py --data FILE --steps 200 --threads 2
"""

import argparse
import json
import math
import time

import torch

from tokens import Gpt
from training import adamw


def read_data(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    characters = sorted(set(text))
    index = {c: i for i, c in enumerate(characters)}
    tokens = torch.tensor([index[c] for c in text])
    cut = int(0.9 * len(tokens))
    return tokens[:cut], tokens[cut:], len(characters)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    for name, default in dict(layers=4, heads=4, width=128, block=64, batch=12, steps=200, seed=1337, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--evaluate", action="store_true", help="loss over the whole validation split at the end")
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    torch.manual_seed(flags.seed)
    training, validation, vocabulary = read_data(flags.data)
    model = Gpt(vocabulary, flags.block, flags.layers, flags.heads, flags.width)
    optimizer = adamw(model, betas=(0.9, 0.99), decay=0.1)

    def batch_of(tokens, starts):
        x = torch.stack([tokens[i : i + flags.block] for i in starts])
        y = torch.stack([tokens[i + 1 : i + 1 + flags.block] for i in starts])
        return x, y

    warm_up = 10 if flags.steps >= 20 else flags.steps // 2
    seconds = 0.0
    loss = None
    for step in range(flags.steps):
        begin = time.perf_counter()
        done = (step - 100) / max(1, flags.steps - 100)
        rate = 1e-3 * (step + 1) / 101 if step < 100 else 1e-4 + 9e-4 * 0.5 * (1 + math.cos(math.pi * done))
        for group in optimizer.param_groups:
            group["lr"] = rate
        x, y = batch_of(training, torch.randint(len(training) - flags.block, (flags.batch,)).tolist())
        loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= warm_up:
            seconds += time.perf_counter() - begin
    result = {
        "torch": torch.__version__,
        "threads": flags.threads,
        "train_loss": loss.item(),
        "tokens_per_second": (flags.steps - warm_up) * flags.batch * flags.block / seconds,
    }
    if flags.evaluate:
        with torch.no_grad():
            total = 0.0
            terms = 0
            for start in range(0, len(validation) - flags.block - 1, flags.block):
                x, y = batch_of(validation, [start])
                total += model(x, y).item() * flags.block
                terms += flags.block
        result["val_loss"] = total / terms
    print(json.dumps(result))


if __name__ == "__main__":
    main()
