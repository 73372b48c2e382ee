"""Transformers in PyTorch: the GPT of nn/gpt.hpp, and Hugging Face's BERT; random tokens, of which all are asked for."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def plain_attention(q, k, v):
    """Causal, by two products and a softmax."""
    time = q.shape[-2]
    later = torch.ones(time, time, dtype=torch.bool, device=q.device).triu(1)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return scores.masked_fill(later, -math.inf).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, width, heads, sdpa):
        super().__init__()
        self.heads = heads
        self.sdpa = sdpa
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
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True) if self.sdpa else plain_attention(q, k, v)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, time_, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, block, layers, heads, width, sdpa=True):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(block, width)
        self.blocks = nn.ModuleList(Block(width, heads, sdpa) for _ in range(layers))
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


class Bert(nn.Module):
    def __init__(self, block, sdpa):
        super().__init__()
        import transformers  # pylint: disable=import-outside-toplevel
        self.model = transformers.BertForMaskedLM(transformers.BertConfig(
            max_position_embeddings=block, attn_implementation="sdpa" if sdpa else "eager"))

    def forward(self, ids, targets):
        logits = self.model(ids).logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def batch_of(vocabulary, flags, device):
    ids = torch.randint(1, vocabulary, (flags.batch, flags.block), device=device)
    return ids, ids


def gpt(flags, device):
    model = Gpt(flags.classes, flags.block, flags.layers, max(1, flags.width // 64), flags.width, flags.technique != "no SDPA")
    return model.to(device), batch_of(flags.classes, flags, device), model.blocks


def gpt2(flags, device):
    model = Gpt(50257, max(1024, flags.block), 12, 12, 768, flags.technique != "no SDPA")
    return model.to(device), batch_of(50257, flags, device), model.blocks


def bert(flags, device):
    model = Bert(max(512, flags.block), flags.technique != "no SDPA")
    return model.to(device), batch_of(30522, flags, device), model.model.bert.encoder.layer


MODELS = {"gpt": gpt, "gpt2": gpt2, "bert": bert}
