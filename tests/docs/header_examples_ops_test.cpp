// The examples of core/ops headers, a to k: each is compiled as the header shows it.
#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/all_ops.hpp>
#include <headroom/core/ops/arrange.hpp>
#include <headroom/core/ops/attention.hpp>
#include <headroom/core/ops/batch_norm.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/convolution.hpp>
#include <headroom/core/ops/cosine.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/cumsum.hpp>
#include <headroom/core/ops/dice_loss.hpp>
#include <headroom/core/ops/dropout.hpp>
#include <headroom/core/ops/einsum.hpp>
#include <headroom/core/ops/embedding.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/feed_forward.hpp>
#include <headroom/core/ops/group_norm.hpp>
#include <headroom/core/ops/gru.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/core/ops/interpolate.hpp>
#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>
#include <headroom/kernels/layer_norm/layer_norm.hpp>
#include <headroom/nn/linear.hpp>

namespace header_examples {
namespace header_examples_ops_test {

using namespace headroom;

void check(const OpTable&, const ErasedSample&) {}
Tensor f(Tensor x) { return x; }

void all_ops_example() {
    for (const OpEntry& op : all_ops()) {
        for (const ErasedSample& sample : op.samples()) check(*op.table, sample);
    }
}

void arrange_example(Tensor images, Tensor tokens, Tensor x) {
    Tensor mirrored = flip(images, {-1});
    Tensor next = roll(tokens, -1, 1);
    Tensor tiles = repeat(x, {2, 1, 3});
}

void attention_example(Tensor qkv, Tensor q, Tensor keys, Tensor values, Tensor lengths, Tensor bias) {
    Tensor y = attention_packed(qkv, 4, 4, true);
    Tensor z = attention(q, keys, values, true);
    Tensor p = attention_packed(qkv, 4, 4, {.mask = {.lengths = lengths}, .dropout = 0.1});
    Tensor b = attention(q, keys, values, {.mask = {.scores = bias}});
}

void batch_norm_example(Tensor x, Tensor weight, Tensor bias, Tensor r, Tensor running_mean, Tensor running_var) {
    auto [y, mean, variance] = batch_norm(x, weight, bias);
    Tensor z = batch_norm(x, weight, bias, {.relu = true, .residual = r}).y;
    Tensor e = frozen_batch_norm(x, running_mean, running_var, weight, bias);
}

void binary_example(Tensor x, Tensor bias, Tensor a, Tensor b) {
    Tensor y = x + bias;
    x = x + f(x);
    Tensor z = maximum(a, b) / (a * a);
}

void cast_example(Tensor x) { Tensor half = cast(x, Dtype::bf16); }

void cat_example(Tensor cache, Tensor k, Tensor a, Tensor b) {
    Tensor keys = cat({cache, k}, 1);
    Tensor pair = stack({a, b});
}

void checks_example(Array x, Array weight, Array bias) {
    check_one_dtype("linear", {{"x", x}, {"weight", weight}, {"bias", bias, kOptional}});
    check_form("linear", {"weight", weight}, weight.rank() == 2, "[out, in]");
    check_last_axis("linear", {"x", x}, weight.size(1), {"weight", weight});
    check_shape("linear", {"bias", bias}, {weight.size(0)}, {"weight", weight});
}

void clone_example(Tensor x) {
    Tensor y = clone(x);
    Tensor images = contiguous(x, MemoryFormat::channels_last);
}

void compare_example(Tensor x, Tensor ids, Tensor logits, Tensor targets, std::int32_t padding) {
    Tensor mask = x < 0.5;
    Tensor both = logical_and(mask, ids != padding);
    Tensor hits = sum(argmax(logits) == targets);
}

void convolution_example(Tensor x, Tensor weight, Tensor bias, Tensor kernel) {
    Tensor y = conv2d(x, weight, bias, {.padding = 1});
    Tensor h = conv2d(x, weight, bias, {.padding = 1, .relu = true});
    Tensor z = conv2d(x, weight, {}, {.stride = 2, .groups = 64});
    Tensor up = conv_transpose2d(y, kernel, {}, {.stride = 2});
}

void cosine_example(Context& context, Tensor queries, Tensor documents, Tensor a, Tensor b, std::vector<float> signs) {
    Tensor alike = cosine_similarity(queries, documents);
    Loss loss = cosine_embedding_loss(a, b, context.from_host(signs, {32}), 0.2);
}

void create_example(Context& context, Tensor scores) {
    Tensor positions = arange(context, 0, 64);
    Tensor noise = randn(context, {8, 128});
    Tensor mask = causal_mask(context, 64, 64);
    scores = where(mask, scores, full(context, {}, -1e9));
}

void cross_entropy_example(Tensor logits, Tensor targets, Tensor weights) {
    Loss loss = cross_entropy(logits, targets);
    Loss smooth = cross_entropy(logits, targets, {.ignore_index = 0, .label_smoothing = 0.1});
    Loss weighted = cross_entropy(logits, targets, {.class_weights = weights});
    backward(loss.mean());
}

void cumsum_example(Tensor lengths) { Tensor starts = cumsum(lengths, 0) - lengths; }

void dice_loss_example(Tensor logits, Tensor masks) {
    Loss loss = dice_loss(logits, masks);
    backward(loss.mean());
}

void dropout_example(Tensor x) {
    Tensor y = dropout(x, 0.1);
    Tensor same = dropout(x, 0.1, false);
    x = dropout_add(f(x), x, 0.1);
}

void einsum_example(Tensor a, Tensor b, Tensor q, Tensor k, Tensor x) {
    Tensor c = einsum("bij,bjk->bik", {a, b});
    Tensor scores = einsum("bthd,bshd->bhts", {q, k});
    Tensor columns = einsum("ij->j", {x});
}

void embedding_example(Context& context, std::vector<float> values, Tensor ids) {
    Tensor table = context.from_host(values, {65, 128}).requires_grad_();
    Tensor x = embedding(table, ids);
    Tensor y = embedding(table, ids, 0);
}

void expand_example(Tensor bias, Tensor x) {
    Tensor rows = expand(bias, {768, 128});
    Tensor table = expand(x.unsqueeze(1), {8, 4, 64});
}

void feed_forward_example(nn::Linear up, nn::Linear down, Tensor x, Tensor w1, Tensor w2) {
    Tensor y = feed_forward(x, up.weight, up.bias, down.weight, down.bias);
    Tensor z = feed_forward(x, w1, {}, w2, {}, Activation::relu);
}

void group_norm_example(Tensor x, Tensor weight, Tensor bias) {
    Tensor y = group_norm(x, 32, weight, bias);
    Tensor z = instance_norm(x);
}

void gru_example(Tensor x, Tensor lengths, RecurrentWeights weights, RecurrentWeights forth, RecurrentWeights back) {
    auto [y, h] = gru(x, {weights});
    auto [z, last] = gru(x, {forth, back}, {}, {.bidirectional = true, .lengths = lengths});
}

void index_example(Context& context, Tensor logits, Tensor ids, Tensor x, Tensor order) {
    Tensor chosen = gather(logits, -1, ids.unsqueeze(-1));
    Tensor counts = scatter_add(zeros(context, {10}), 0, ids, ones(context, {64}));
    Tensor rows = index_select(x, 0, order);
}

void interpolate_example(Tensor x) {
    Tensor y = interpolate(x, {.scale = 2.0});
    Tensor z = interpolate(x, {.scale = 2.0, .mode = Interpolation::bilinear, .align_corners = true});
    Tensor w = interpolate(x, {.size = {{384, 512}}, .mode = Interpolation::bilinear});
}

void joint_targets_example(Exec& exec, GradSink sink, Array dy, View x, View gamma, View mean, View rstd) {
    JointTargets targets(exec, sink);
    const JointTarget& dgamma = targets.ask(1);
    const JointTarget& dx = targets.ask(0, dy);
    exec.run<kernels::LayerNormGradientPlan>(x, dy.view(), &gamma, mean, rstd,
                                             kernels::LayerNormGradients{.x = dx, .gamma = dgamma});
}

TEST(HeaderExamples, OfOpsRun) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    const auto x = [&](const Shape& shape) { return randn(context, shape); };
    const Tensor four = arange(context, 0, 4), sixth = arange(context, 5, 6);
    all_ops_example();
    arrange_example(x({2, 3}), x({2, 3}), x({4, 5}));
    attention_example(x({1, 8, 3 * 128}), x({1, 1, 4, 32}), x({1, 63, 4, 32}), x({1, 63, 4, 32}), sixth, x({4, 1, 63}));
    batch_norm_example(x({2, 4, 3, 3}), x({4}), x({4}), x({2, 4, 3, 3}), x({4}), ones(context, {4}));
    binary_example(x({3, 4}), x({4}), x({3, 4}), x({3, 4}));
    cast_example(x({3}));
    cat_example(x({2, 3, 1, 1}), x({2, 1, 1, 1}), x({3}), x({3}));
    clone_example(x({2, 3, 4, 4}));
    compare_example(x({4}), four, x({4, 5}), four, 0);
    cosine_example(context, x({32, 8}), x({32, 8}), x({32, 8}), x({32, 8}), std::vector<float>(32, 1.0f));
    create_example(context, x({64, 64}));
    cross_entropy_example(x({4, 65}).detach().requires_grad_(), four, x({65}) * 0.0 + 1.0);
    cumsum_example(four);
    dice_loss_example(x({1, 3, 2, 2}).detach().requires_grad_(), zeros(context, {1, 2, 2}, Dtype::i64));
    dropout_example(x({8}));
    einsum_example(x({2, 3, 4}), x({2, 4, 5}), x({2, 3, 4, 5}), x({2, 6, 4, 5}), x({2, 3}));
    embedding_example(context, std::vector<float>(65 * 128), four);
    expand_example(x({128}), x({8, 64}));
    group_norm_example(x({2, 64, 3, 3}), x({64}), x({64}));
    interpolate_example(x({1, 2, 3, 3}));
}

}  // namespace header_examples_ops_test
}  // namespace header_examples
