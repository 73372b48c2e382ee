#!/usr/bin/env python3
"""Writes tests/reference/ops.safetensors: inputs, outputs and gradients of every op, computed by PyTorch in f64.

    pip install torch torchvision safetensors numpy        # once; written with torch 2.15
    scripts/reference/ops.py

Tensors of a case are named CASE/in0, in1, ... CASE/out0, ... CASE/dy (the gradient of out0, where that is not a scalar)
and CASE/grad0, ... for inputs that are differentiated. tests/core/reference_ops_test.cpp makes the same calls by the
names of the cases; attributes (axes, epsilon, ...) stand in both. Inputs can be represented in f32, so that the same
values serve a test in f32. Random ops (dropout, rand, randn) are not here: their numbers are Headroom's own.
"""
import math
import pathlib

import torch
import torch.nn.functional as F
import torchvision
from safetensors.torch import save_file

GENERATOR = torch.Generator().manual_seed(20240607)
TENSORS = {}


def normal(*shape):
    return torch.randn(*shape, generator=GENERATOR).double()


def positive(*shape):
    """In [0.5, 2)."""
    return (0.5 + 1.5 * torch.rand(*shape, generator=GENERATOR)).double()


def unit(*shape):
    return (0.05 + 0.9 * torch.rand(*shape, generator=GENERATOR)).double()


def index(bound, *shape):
    return torch.randint(bound, shape, generator=GENERATOR)


def boolean(*shape):
    return torch.rand(*shape, generator=GENERATOR) < 0.5


def stored(x):
    x = x.detach()
    return (x.to(torch.uint8) if x.dtype == torch.bool else x).clone().contiguous()


def case(name, function, *inputs):
    """Calls function(*inputs), which returns a tensor or several, and stores everything."""
    inputs = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    for i, x in enumerate(inputs):
        TENSORS[f"{name}/in{i}"] = stored(x)
    for i, y in enumerate(outputs):
        TENSORS[f"{name}/out{i}"] = stored(y)
    if not outputs[0].requires_grad:
        return
    dy = None
    if outputs[0].dim() > 0:
        dy = normal(*outputs[0].shape)
        TENSORS[f"{name}/dy"] = stored(dy)
    outputs[0].backward(dy)
    for i, x in enumerate(inputs):
        if x.is_floating_point() and x.grad is not None:
            TENSORS[f"{name}/grad{i}"] = stored(x.grad)


def pointwise():
    for name, function in {
        "neg": torch.neg, "exp": torch.exp, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "gelu_erf": F.gelu, "silu": F.silu, "abs": torch.abs,
        "square": torch.square, "sin": torch.sin, "cos": torch.cos, "clamp": lambda x: torch.clamp(x, -0.5, 0.75),
        "pow_cube": lambda x: x**3.0, "affine": lambda x: x * -1.5 + 0.25, "number_minus": lambda x: 2.0 - x,
    }.items():
        case(name, function, normal(5, 7))
    for name, function in {
        "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal,
        "pow_scalar": lambda x: x**2.5, "number_over": lambda x: 3.0 / x,
    }.items():
        case(name, function, positive(5, 7))
    case("add", torch.add, normal(3, 1, 5), normal(4, 1))
    case("sub", torch.sub, normal(3, 5), normal(5))
    case("mul", torch.mul, normal(3, 5), normal(3, 1))
    case("div", torch.div, normal(2, 3, 5), positive(3, 1))
    case("pow", torch.pow, positive(3, 5), normal(5))
    case("maximum", torch.maximum, normal(4, 5), normal(4, 5))
    case("minimum", torch.minimum, normal(4, 5), normal(5))
    case("where", torch.where, boolean(4, 5), normal(4, 5), normal(5))
    for name in ["eq", "ne", "lt", "le", "gt", "ge"]:
        case(name, getattr(torch, name), index(3, 4, 5), index(3, 5))
        case(name + "_number", lambda x, f=getattr(torch, name): f(x, 1.0), index(3, 4, 5))
    case("logical_and", torch.logical_and, boolean(4, 5), boolean(4, 5))
    case("logical_or", torch.logical_or, boolean(4, 5), boolean(4, 5))
    case("logical_not", torch.logical_not, boolean(4, 5))


def shapes():
    case("cast", lambda x: x.float(), normal(4, 5))
    case("contiguous", lambda x: x.transpose(0, 1).contiguous(), normal(4, 5))
    case("expand", lambda x: x.expand(2, 3, 4), normal(3, 1))
    case("cat", lambda a, b, c: torch.cat([a, b, c], 1), normal(3, 2), normal(3, 1), normal(3, 4))
    case("stack", lambda a, b: torch.stack([a, b], 1), normal(3, 2), normal(3, 2))
    case("gather", lambda x, i: torch.gather(x, 1, i), normal(4, 5), index(5, 4, 3))
    case("scatter_add", lambda x, i, s: torch.scatter_add(x, 1, i, s), normal(4, 5), index(5, 4, 3), normal(4, 3))
    case("index_select", lambda x, i: torch.index_select(x, 1, i), normal(3, 5, 2), index(5, 6))
    case("arange", lambda: torch.arange(2.0, 9.0, 1.5, dtype=torch.float64))
    case("full", lambda: torch.full((2, 3), 2.5, dtype=torch.float64))
    case("causal_mask", lambda: torch.ones(3, 5).tril(2).bool())


def reductions():
    x = normal(4, 70, 3)
    case("sum", torch.sum, x)
    case("sum_axes", lambda x: x.sum((0, 2), keepdim=True), x)
    case("mean", lambda x: x.mean((1,)), x)
    case("max", lambda x: x.amax((1,)), x)
    case("min", torch.amin, normal(4, 7))
    case("var", lambda x: x.var((1,), correction=1), x)
    case("var_population", lambda x: x.var((0, 1), correction=0, keepdim=True), x)
    case("argmax", lambda x: x.argmax(1), x)


def normalisation():
    case("softmax", lambda x: x.softmax(-1), normal(5, 70))
    case("softmax_axis", lambda x: x.softmax(0), normal(5, 7, 2))
    case("log_softmax", lambda x: x.log_softmax(-1), normal(5, 70))
    case("log_softmax_axis", lambda x: x.log_softmax(1), normal(5, 7, 2))
    case("layer_norm", lambda x, g, b: F.layer_norm(x, (40,), g, b, 1e-5), normal(3, 7, 40), normal(40), normal(40))
    case("layer_norm_plain", lambda x: F.layer_norm(x, (9,), eps=1e-3), normal(6, 9))
    case("rms_norm", lambda x, g: F.rms_norm(x, (40,), g, 1e-5), normal(3, 7, 40), normal(40))
    case("rms_norm_plain", lambda x: F.rms_norm(x, (9,), eps=1e-3), normal(6, 9))


def products():
    case("matmul", torch.matmul, normal(17, 33), normal(33, 20))
    case("matmul_batched", torch.matmul, normal(2, 1, 5, 6), normal(3, 6, 4))
    case("matmul_one_matrix", torch.matmul, normal(2, 3, 5, 6), normal(6, 4))
    case("matmul_vector", torch.matmul, normal(2, 5, 6), normal(6))
    case("matmul_row", torch.matmul, normal(6), normal(2, 6, 4))
    case("matmul_dot", torch.matmul, normal(6), normal(6))
    case("linear", F.linear, normal(3, 11, 33), normal(20, 33), normal(20))
    case("linear_plain", F.linear, normal(5, 4), normal(3, 4))
    case("linear_vector", F.linear, normal(4), normal(3, 4), normal(3))
    case("embedding", lambda table, ids: F.embedding(ids, table), normal(11, 6), index(11, 4, 9))


def scores(q, k, v, causal, scale=None):
    """[B, T, H, D] attention, composed; a causal query i sees keys up to i + (S - T)."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    s = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if causal:
        t, n = s.shape[-2:]
        s = s.masked_fill(torch.ones(t, n).tril(n - t) == 0, -math.inf)
    return (s.softmax(-1) @ v).transpose(1, 2)


def packed(heads, kv_heads, causal, scale=None):
    def function(qkv):
        batch, time, width = qkv.shape
        x = qkv.view(batch, time, heads + 2 * kv_heads, -1)
        q, k, v = x.split([heads, kv_heads, kv_heads], 2)
        return scores(q, k, v, causal, scale).reshape(batch, time, -1)
    return function


def attention():
    case("attention_packed", packed(2, 2, True), normal(2, 37, 3 * 2 * 8))
    case("attention_packed_full", packed(3, 3, False), normal(2, 9, 3 * 3 * 4))
    case("attention_packed_grouped", packed(4, 2, True, 0.3), normal(2, 17, (4 + 2 * 2) * 5))
    case("attention", lambda q, k, v: scores(q, k, v, False), normal(2, 5, 2, 4), normal(2, 9, 2, 4), normal(2, 9, 2, 4))
    case("attention_cached", lambda q, k, v: scores(q, k, v, True), normal(2, 3, 4, 6), normal(2, 40, 2, 6),
         normal(2, 40, 2, 6))


def losses():
    case("cross_entropy", lambda x, t: F.cross_entropy(x, t, reduction="sum"), normal(13, 70), index(70, 13))
    case("cross_entropy_ignore", lambda x, t: F.cross_entropy(x, t, reduction="sum", ignore_index=1), normal(13, 4),
         index(4, 13))
    case("cross_entropy_smooth", lambda x, t: F.cross_entropy(x, t, reduction="sum", label_smoothing=0.1),
         normal(13, 9), index(9, 13))
    case("linear_cross_entropy", lambda x, w, t: F.cross_entropy(F.linear(x, w), t, reduction="sum"), normal(70, 8),
         normal(19, 8), index(19, 70))
    case("linear_cross_entropy_options",
         lambda x, w, t: F.cross_entropy(F.linear(x, w).view(-1, 5), t.view(-1), reduction="sum", ignore_index=2,
                                         label_smoothing=0.2), normal(3, 7, 4), normal(5, 4), index(5, 3, 7))
    case("mse", lambda x, y: F.mse_loss(x, y, reduction="sum"), normal(6, 7), normal(6, 7))
    case("binary_cross_entropy_with_logits",
         lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="sum"), 4 * normal(6, 7), unit(6, 7))


def fused():
    def feed_forward(activation):
        return lambda x, w1, b1, w2, b2: F.linear(activation(F.linear(x, w1, b1)), w2, b2)

    layers = (3, 7, 12), (20, 12), (20,), (9, 20), (9,)
    case("feed_forward", feed_forward(lambda x: F.gelu(x, approximate="tanh")), *(normal(*shape) for shape in layers))
    case("feed_forward_erf", feed_forward(F.gelu), *(normal(*shape) for shape in layers))
    case("feed_forward_relu", feed_forward(F.relu), *(normal(*shape) for shape in layers))
    case("feed_forward_plain", lambda x, w1, w2: F.linear(F.gelu(F.linear(x, w1)), w2), normal(5, 4), normal(7, 4),
         normal(3, 7))


def further():
    """After the others, whose numbers stay as they are."""
    for name, function in {
        "expm1": torch.expm1, "erf": torch.erf, "sign": torch.sign, "floor": torch.floor, "ceil": torch.ceil,
        "leaky_relu": lambda x: F.leaky_relu(x, 0.2), "elu": lambda x: F.elu(x, 1.5), "softplus": F.softplus,
        "isfinite": lambda x: torch.isfinite(1 / torch.floor(x)),
    }.items():
        case(name, function, normal(5, 7))
    case("log1p", torch.log1p, positive(5, 7) - 1)
    case("argmin", lambda x: x.argmin(1), normal(4, 70, 3))
    orders()
    statistics()
    arrangements()


def orders():
    case("sort", lambda x: torch.sort(x, 1)[0], normal(4, 30, 3))
    case("sort_descending", lambda x: torch.sort(x, 0, descending=True)[0], normal(9, 5))
    case("topk", lambda x: torch.topk(x, 4)[0], normal(5, 20))
    case("topk_smallest", lambda x: torch.topk(x, 6, 0, largest=False)[0], normal(20, 3))
    for name, descending in {"argsort": False, "argsort_descending": True}.items():
        # NaN, infinities, -0 and many that are equal
        case(name, lambda x, d=descending: torch.sort(1 / torch.log(x), dim=1, descending=d, stable=True)[1],
             torch.randint(-1, 4, (3, 40), generator=GENERATOR).double())
    case("topk_indices", lambda x: torch.topk(x, 7, 1)[1], normal(3, 33))
    case("cumsum", lambda x: x.cumsum(1), normal(4, 70, 3))
    case("cumsum_integers", lambda x: x.cumsum(0), index(9, 12, 3))


def statistics():
    x = normal(4, 70, 3)
    case("logsumexp", lambda x: x.logsumexp((0, 2)), x)
    case("logsumexp_rows", lambda x: x.logsumexp(-1, keepdim=True), normal(5, 70))
    case("std", lambda x: x.std(1), x)
    case("std_population", lambda x: x.std((0, 1), correction=0, keepdim=True), x)
    case("std_of_equals", lambda x: (x * 0 + 1).std(1), normal(3, 4))
    case("norm", lambda x: torch.linalg.vector_norm(x, 2, (1,)), x)
    case("norm_of_zeros", lambda x: torch.linalg.vector_norm(x * 0, 2, 1), normal(2, 5))
    case("norm_3_of_zeros", lambda x: torch.linalg.vector_norm(x * 0, 3, 1), normal(2, 5))
    case("norm_0", lambda x: torch.linalg.vector_norm(torch.floor(x), 0, 1).detach(), normal(4, 7))
    for name, p in {"norm_1": 1, "norm_3": 3, "norm_half": 0.5, "norm_inf": math.inf, "norm_minus_inf": -math.inf}.items():
        case(name, lambda x, p=p: torch.linalg.vector_norm(x, p, 1), normal(4, 7))
    case("prod", lambda x: x.prod(1), positive(3, 9, 2))
    case("prod_all", torch.prod, normal(2, 5))
    zeros = torch.ones(4, 5).double()
    zeros[1, 2] = 0
    zeros[2, 1:4:2] = 0
    case("prod_zeros", lambda x, z: (x * z).prod(1), normal(4, 5), zeros)
    case("prod_integers", lambda x: x.prod(0), index(7, 4, 5))
    for name in ["any", "all"]:
        case(name, lambda x, f=getattr(torch, name): f(x, 1), boolean(40, 3))
        case(name + "_numbers", lambda x, f=getattr(torch, name): f(x), index(2, 3, 3))


def arrangements():
    case("round", torch.round, torch.arange(-20, 21).double() / 4)
    case("isnan", lambda x: torch.isnan(torch.log(x)), normal(5, 7))
    case("masked_fill", lambda x, m: x.masked_fill(m, -1.5), normal(3, 4, 5), boolean(4, 1))
    case("masked_fill_integers", lambda x, m: x.masked_fill(m, -3), index(9, 4, 5), boolean(4, 5))
    case("glu", lambda x: F.glu(x, 1), normal(3, 8, 2))
    case("swiglu", lambda a, b: F.silu(a) * b, normal(3, 8), normal(3, 8))
    case("tril", lambda x: x.tril(1), normal(2, 5, 4))
    case("triu", lambda x: x.triu(-1), normal(5, 7))
    case("flip", lambda x: x.flip(0, 2), normal(3, 4, 5))
    case("roll", lambda x: x.roll(-2, 1), normal(3, 5))
    case("roll_far", lambda x: x.roll(13, 0), normal(5, 2))
    case("repeat", lambda x: x.repeat(2, 1, 3), normal(4, 2))
    case("repeat_twice", lambda x: x.transpose(0, 1).repeat(3, 2), normal(4, 3))
    case("one_hot", lambda i: F.one_hot(i, 6), index(6, 4, 3))
    case("linspace", lambda: torch.linspace(-2.0, 5.0, 9, dtype=torch.float64))
    case("linspace_even", lambda: torch.linspace(3.0, 0.1, 6, dtype=torch.float64))
    for name, equation, *shapes in [
        ("transpose", "ij->ji", (3, 4)), ("sum", "ijk->j", (2, 3, 4)), ("implicit", "ba", (3, 4)),
        ("matmul", "ij,jk->ik", (3, 4), (4, 5)), ("batched", "bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
        ("heads", "bthd,bshd->bhts", (2, 3, 2, 4), (2, 5, 2, 4)), ("outer", "i,j->ji", (3,), (4,)),
        ("dot", "i,i", (6,), (6,)), ("elementwise", "ij,ji->ij", (3, 4), (4, 3)),
        ("summed_apart", "ijk,jl->il", (2, 3, 4), (3, 5)), ("bilinear", "bi,bij->bj", (3, 4), (3, 4, 5)),
    ]:
        case("einsum_" + name, lambda *x, e=equation: torch.einsum(e, *x), *(normal(*shape) for shape in shapes))


def turned(x, interleaved=False, first=0, base=10000.0):
    """x [B, T, H, D] with rotary positions, as transformers (halves) and GPT-J (neighbours) compute them."""
    width = x.shape[-1]
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(first, first + x.shape[1], dtype=torch.float64), frequencies)[None, :, None, :]
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        pairs = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
        return torch.stack(pairs, -1).flatten(-2)
    a, b = x.chunk(2, -1)
    cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def weights_and_positions():
    weights = torch.tensor([0.5, 1.0, 2.0, 0.25], dtype=torch.float64)
    signs = torch.tensor([1, -1, 1, -1, -1])

    def weighted(x, t, **options):
        return F.cross_entropy(x, t, weights, **options)

    case("cross_entropy_weights", lambda x, t: weighted(x, t, reduction="sum"), normal(13, 4), index(4, 13))
    case("cross_entropy_weighted_mean", lambda x, t: weighted(x, t, ignore_index=1), normal(13, 4), index(4, 13))
    case("cross_entropy_weights_smooth", lambda x, t: weighted(x, t, ignore_index=2, label_smoothing=0.3),
         normal(13, 4), index(4, 13))
    case("linear_cross_entropy_weights",
         lambda x, w, t: weighted(F.linear(x, w), t, ignore_index=1, label_smoothing=0.1), normal(30, 6),
         normal(4, 6), index(4, 30))
    case("l1", lambda x, y: F.l1_loss(x, y, reduction="sum"), normal(6, 7), normal(6, 7))
    case("smooth_l1", lambda x, y: F.smooth_l1_loss(x, y, reduction="sum", beta=0.7), normal(6, 7), normal(6, 7))
    case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, 1), normal(3, 8, 2), normal(3, 8, 2))
    case("cosine_similarity_zero", lambda a, b: F.cosine_similarity(a, b, -1), torch.zeros(2, 5).double(), normal(2, 5))
    case("cosine_embedding", lambda a, b: F.cosine_embedding_loss(a, b, signs, 0.1, reduction="sum"), normal(5, 8),
         normal(5, 8))
    case("lerp", lambda a, b: torch.lerp(a, b, 0.3), normal(4, 5), normal(5))
    case("rotary", turned, normal(2, 9, 3, 8))
    case("rotary_neighbours", lambda x: turned(x, True, first=40, base=500.0), normal(2, 9, 3, 8))


def images():
    def relu_of(y, added=0):
        return F.relu(y + added)

    def trained(x, w, b):
        return F.batch_norm(x, None, None, w, b, True)

    def numbers():
        return normal(3, 6, 5, 4), normal(6), normal(6)

    case("batch_norm", trained, *numbers())
    case("batch_norm_relu", lambda x, w, b: relu_of(trained(x, w, b)), *numbers())
    case("batch_norm_residual_relu", lambda x, w, b, r: relu_of(trained(x, w, b), r), *numbers(), normal(3, 6, 5, 4))
    mean, variance = normal(6), positive(6)
    frozen = {"running_mean": mean, "running_var": variance}
    TENSORS["frozen_batch_norm/in3"], TENSORS["frozen_batch_norm/in4"] = mean, variance
    case("frozen_batch_norm", lambda x, w, b: relu_of(F.batch_norm(x, **frozen, weight=w, bias=b)), *numbers())
    case("group_norm", lambda x, w, b: F.group_norm(x, 3, w, b), *numbers())
    case("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), *numbers())
    case("instance_norm_plain", lambda x: F.instance_norm(x, eps=1e-3), normal(2, 3, 7))


def convolutions():
    case("conv2d", lambda x, w, b: F.conv2d(x, w, b, padding=1), normal(2, 5, 6, 7), normal(4, 5, 3, 3), normal(4))
    case("conv2d_strided", lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 0), (1, 2)), normal(2, 3, 7, 8),
         normal(4, 3, 3, 2))
    case("conv2d_groups", lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=(0, 1), groups=3), normal(2, 6, 5, 4),
         normal(9, 2, 2, 3), normal(9))
    case("conv1d", lambda x, w, b: F.conv1d(x, w, b, 2, 3, 2), normal(2, 3, 9), normal(4, 3, 4), normal(4))
    case("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, 2), normal(2, 3, 4, 5), normal(3, 4, 2, 2),
         normal(4))
    case("conv_transpose2d_padded",
         lambda x, w: F.conv_transpose2d(x, w, None, (2, 3), (1, 0), (1, 2), 2, (2, 1)), normal(1, 4, 3, 3),
         normal(4, 3, 3, 2))


def more_losses():
    def focal(x, t, **options):
        return torchvision.ops.sigmoid_focal_loss(x, t, reduction="sum", **options)

    def dice(p, t):
        axes = tuple(range(2, p.dim()))
        return (1 - (2 * (p * t).sum(axes) + 1e-6) / (p.sum(axes) + t.sum(axes) + 1e-6)).mean()

    weights = torch.tensor([0.5, 1.0, 2.0, 0.25]).double()
    case("nll", lambda x, t: F.nll_loss(x, t, reduction="sum"), normal(13, 4), index(4, 13))
    case("nll_ignore", lambda x, t: F.nll_loss(x, t, ignore_index=1), normal(13, 4), index(4, 13))
    case("nll_weighted_mean", lambda x, t: F.nll_loss(x, t, weights, ignore_index=2), normal(13, 4), index(4, 13))
    case("kl_div", lambda x, t: F.kl_div(x, t, reduction="batchmean"), normal(6, 7), unit(6, 7))
    case("kl_div_zero", lambda x: F.kl_div(x, torch.eye(5, 3).double(), reduction="sum"), normal(5, 3))
    case("kl_div_log_target", lambda x, t: F.kl_div(x, t, reduction="batchmean", log_target=True), normal(6, 2, 3),
         normal(6, 2, 3))
    case("huber", lambda x, t: F.huber_loss(x, t, reduction="sum", delta=0.7), normal(6, 7), normal(6, 7))
    case("focal", focal, 4 * normal(6, 7), unit(6, 7))
    case("focal_of_classes", lambda x, t: focal(x, t.double(), alpha=-1, gamma=1.5), 40 * normal(6, 7), boolean(6, 7))
    case("focal_gamma_0", lambda x, t: focal(x, t, alpha=0.9, gamma=0), 4 * normal(6, 7), unit(6, 7))
    case("dice", lambda x, t: dice(x.softmax(1), F.one_hot(t, 3).permute(0, 3, 1, 2)), normal(2, 3, 4, 5),
         index(3, 2, 4, 5))
    case("dice_one_channel", lambda x, t: dice(x.sigmoid(), t.unsqueeze(1)), normal(3, 1, 6), index(2, 3, 6))
    case("dice_probabilities", lambda x, t: dice(x.softmax(1), t), normal(2, 3, 4, 5), unit(2, 3, 4, 5))


def main():
    for group in [pointwise, shapes, reductions, normalisation, products, attention, losses, fused, further,
                  weights_and_positions, images, convolutions, more_losses]:
        group()
    target = pathlib.Path(__file__).resolve().parents[2] / "tests/reference/ops.safetensors"
    save_file(TENSORS, target)
    print(f"{target}: {len(TENSORS)} tensors, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
