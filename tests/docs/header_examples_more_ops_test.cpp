// The examples of core/ops headers, l to z: each is compiled as the header shows it.
#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/core/ops/layer_norm.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/core/ops/logsumexp.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/core/ops/lstm.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/nll_loss.hpp>
#include <headroom/core/ops/nms.hpp>
#include <headroom/core/ops/norm.hpp>
#include <headroom/core/ops/one_hot.hpp>
#include <headroom/core/ops/pad.hpp>
#include <headroom/core/ops/pool.hpp>
#include <headroom/core/ops/prod.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/rms_norm.hpp>
#include <headroom/core/ops/roi_align.hpp>
#include <headroom/core/ops/rotary.hpp>
#include <headroom/core/ops/sampling.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/core/ops/sort.hpp>
#include <headroom/core/ops/triangle.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>

namespace header_examples {
namespace header_examples_more_ops_test {

using namespace headroom;

void layer_norm_example(Tensor x, Tensor gamma, Tensor beta) {
    Tensor y = layer_norm(x, gamma, beta);
    Tensor z = layer_norm(x, gamma, {}, 1e-6);
}

void linear_example(Context& context, std::vector<float> values, Tensor x, Tensor bias) {
    Tensor weight = context.from_host(values, {512, 128}).requires_grad_();
    Tensor y = linear(x, weight, bias);
    Tensor z = linear(x, weight);
}

void linear_cross_entropy_example(Tensor x, Tensor table, Tensor targets) {
    Loss loss = linear_cross_entropy(x, table, targets);
}

void logsumexp_example(Tensor scores) { Tensor total = logsumexp(scores, {-1}, true); }

void losses_example(Tensor prediction, Tensor target, Tensor logits, Tensor labels) {
    backward(mse_loss(prediction, target).mean());
    Loss loss = binary_cross_entropy_with_logits(logits, labels);
}

void lstm_example(Tensor x, Tensor lengths, RecurrentWeights weights, RecurrentWeights forth, RecurrentWeights back,
                  RecurrentWeights first, RecurrentWeights second) {
    auto [y, state] = lstm(x, {weights});
    auto [z, last] = lstm(x, {forth, back}, {}, {.bidirectional = true, .lengths = lengths});
    auto [w, end] = lstm(x, {first, second}, state, {.checkpoint = kSqrtOfTime});
}

void matmul_example(Tensor a, Tensor b, Tensor x) {
    Tensor c = matmul(a, b);
    Tensor d = matmul(a, b.select(0, 0));
    Tensor gram = matmul(x, x.transpose(-1, -2));
}

void nll_loss_example(Tensor logits, Tensor targets) {
    Loss loss = nll_loss(log_softmax(logits), targets, {.ignore_index = 0});
}

void nms_example(Tensor boxes, Tensor scores, Tensor labels) {
    Tensor kept = nms(boxes, scores, 0.5, {.most = 100, .groups = labels, .min_score = 0.05});
    Tensor is_there = ge(kept, 0.0);
    Tensor best = gather(scores, 1, clamp(kept, 0, 999));
}

void norm_example(Tensor x) {
    Tensor lengths = norm(x, 2.0, {-1}, true);
    Tensor largest = norm(x, INFINITY);
}

void one_hot_example(Tensor labels) { Tensor targets = one_hot(labels, 10, Dtype::f32); }

void pad_example(Tensor x) {
    Tensor y = pad(x, {1, 2, 3, 4});
    Tensor z = pad(x, {1, 1, 1, 1}, PadMode::reflect);
    Tensor smaller = pad(x, {-1, -1});
}

void pool_example(Tensor x) {
    Tensor y = max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});
    Tensor z = avg_pool2d(x, {.kernel = 2});
    Tensor features = global_avg_pool2d(x).reshape({8, 64});
}

void prod_example(Tensor probabilities) { Tensor likelihood = prod(probabilities, {-1}); }

void reduce_example(Tensor x, Tensor logits) {
    Tensor total = sum(x);
    Tensor rows = mean(x, {-1}, true);
    Tensor spread = var(x, {0, 1});
    Tensor best = argmax(logits, -1);
}

void rms_norm_example(Tensor x, Tensor gamma) {
    Tensor y = rms_norm(x, gamma);
    Tensor z = rms_norm(x, {}, 1e-6);
}

void roi_align_example(Tensor features, Tensor boxes) {
    Tensor y = roi_align(features, boxes, {7, 7}, {.scale = 0.25, .sampling = 2});
}

void rotary_example(Tensor split, Tensor key, std::int64_t heads, std::int64_t cached) {
    Tensor q = rotary(split.slice(2, 0, heads));
    Tensor next = rotary(key, cached);
    Tensor as_gpt_j = rotary(q, 0, {.interleaved = true});
}

void sampling_example(Context& context, Tensor logits) {
    Tensor order = randperm(context, 60000);
    Tensor classes = multinomial(softmax(logits), 5);
}

void softmax_example(Tensor x) {
    Tensor p = softmax(x);
    Tensor q = log_softmax(x, 0);
}

void sort_example(Tensor x, Tensor logits, Tensor lengths) {
    auto [values, indices] = sort(x, -1, true);
    auto [best, ids] = topk(logits, 5);
    Tensor order = argsort(lengths);
}

void triangle_example(Tensor x) {
    Tensor lower = tril(x);
    Tensor strict = triu(x, 1);
}

void unary_example(Tensor x) {
    Tensor y = gelu(x * 2.0 + 1.0);
    Tensor z = relu(std::move(y));
    Tensor w = clamp(1.0 / x, -10.0, 10.0);
    Tensor p = pow(x, 3.0);
}

void where_example(Context& context, Tensor scores, Tensor x, std::int64_t t, std::int64_t s) {
    scores = where(causal_mask(context, t, s), scores, full(context, {}, -1e9));
    Tensor safe = where(gt(x, 0.0), log(x), zeros(context, {}));
}

TEST(HeaderExamples, OfMoreOpsRun) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    const auto x = [&](const Shape& shape) { return randn(context, shape); };
    const Tensor four = arange(context, 0, 4);
    layer_norm_example(x({2, 128}), x({128}), x({128}));
    linear_example(context, std::vector<float>(512 * 128), x({2, 128}), x({512}));
    linear_cross_entropy_example(x({4, 8}), x({9, 8}), four);
    logsumexp_example(x({2, 65}));
    losses_example(x({4}).detach().requires_grad_(), x({4}), x({4}), ones(context, {4}));
    matmul_example(x({8, 4, 3}), x({8, 3, 2}), x({2, 3}));
    nll_loss_example(x({4, 65}), four);
    nms_example(x({1, 1000, 4}), x({1, 1000}), zeros(context, {1, 1000}, Dtype::i64));
    norm_example(x({2, 3}));
    one_hot_example(four);
    pad_example(x({1, 2, 3, 3}));
    pool_example(x({8, 64, 4, 4}));
    prod_example(x({2, 5}));
    reduce_example(x({2, 3, 4}), x({2, 5}));
    rms_norm_example(x({2, 128}), x({128}));
    rotary_example(x({1, 3, 12, 64}), x({1, 1, 4, 64}), 4, 3);
    sampling_example(context, x({8, 65}));
    softmax_example(x({2, 3}));
    sort_example(x({2, 3}), x({8, 65}), four);
    triangle_example(x({3, 3}));
    unary_example(x({3}));
    where_example(context, x({3, 3}), x({3}), 3, 3);
}

}  // namespace header_examples_more_ops_test
}  // namespace header_examples
