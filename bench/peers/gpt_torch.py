"""The GPT of train_gpt in PyTorch, eager, with fused AdamW: same architecture, sizes, optimizer, schedule and data order
by chance. Prints one JSON object. PyTorch is a peer to compare with, not a dependency: pip install torch==2.15.0.

    python3 bench/peers/gpt_torch.py --data FILE --steps 200 --threads 2
"""

import argparse
import json
import math
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time_, width = x.shape
        split = self.qkv(self.norm1(x)).view(batch, time_, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, time_, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, block, layers, heads, width):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(block, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("projection.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * layers) if residual else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


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
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)

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
