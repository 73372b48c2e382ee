#pragma once
// The members of Tensor and the functions of tensors, each called on a tensor of the test's choice: for what holds for
// all of them. A test counts that none is left out.
//
//     for (const auto& [name, call] : kFunctions) call(Tensor());
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/loss.hpp>
#include <headroom/core/ops/all_ops.hpp>
#include <headroom/core/ops/arrange.hpp>
#include <headroom/core/ops/attention.hpp>
#include <headroom/core/ops/batch_norm.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/cat.hpp>
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

namespace headroom::test {

using Calls = std::multimap<std::string, std::function<void(Tensor)>>;

/// The members of Tensor, each called on `x`.
inline const Calls kMembers{
    {"context", [](Tensor x) { x.context(); }},
    {"dtype", [](Tensor x) { x.dtype(); }},
    {"shape", [](Tensor x) { x.shape(); }},
    {"strides", [](Tensor x) { x.strides(); }},
    {"rank", [](Tensor x) { x.rank(); }},
    {"size", [](Tensor x) { x.size(0); }},
    {"numel", [](Tensor x) { x.numel(); }},
    {"is_contiguous", [](Tensor x) { x.is_contiguous(); }},
    {"is_contiguous", [](Tensor x) { x.is_contiguous(MemoryFormat::channels_last); }},
    {"reshape", [](Tensor x) { x.reshape({1}); }},
    {"flatten", [](Tensor x) { x.flatten(); }},
    {"transpose", [](Tensor x) { x.transpose(0, 1); }},
    {"permute",
     [](Tensor x) {
         x.permute({1, 0});
     }},
    {"permute",
     [](Tensor x) {
         x.permute(std::vector<int>{1, 0});
     }},
    {"slice", [](Tensor x) { x.slice(0, 0, 1); }},
    {"select", [](Tensor x) { x.select(0, 0); }},
    {"split", [](Tensor x) { x.split(1, 0); }},
    {"split",
     [](Tensor x) {
         x.split({1, 1}, 0);
     }},
    {"squeeze", [](Tensor x) { x.squeeze(0); }},
    {"unsqueeze", [](Tensor x) { x.unsqueeze(0); }},
    {"unsqueeze", [](Tensor x) { x.unsqueeze(-1); }},
    {"contiguous", [](Tensor x) { x.contiguous(); }},
    {"contiguous", [](Tensor x) { x.contiguous(MemoryFormat::channels_last); }},
    {"clone", [](Tensor x) { x.clone(); }},
    {"detach", [](Tensor x) { x.detach(); }},
    {"item", [](Tensor x) { x.item(); }},
    {"to_vector", [](Tensor x) { x.to_vector<float>(); }},
    {"requires_grad_", [](Tensor x) { x.requires_grad_(); }},
    {"requires_grad_", [](Tensor x) { std::move(x).requires_grad_(false); }},
    {"retain_grad", [](Tensor x) { x.retain_grad(); }},
    {"grad", [](Tensor x) { x.grad(); }},
    {"zero_grad", [](Tensor x) { x.zero_grad(); }},
    {"array", [](Tensor x) { x.array(); }},
};

/// The functions of a tensor, each called with `x` in place of every tensor that it needs.
inline const Calls kFunctions{
    {"abs", [](Tensor x) { abs(x); }},
    {"add", [](Tensor x) { add(x, x); }},
    {"adaptive_avg_pool2d",
     [](Tensor x) {
         adaptive_avg_pool2d(x, {1, 1});
     }},
    {"affine", [](Tensor x) { affine(x, 2, 1.0); }},
    {"all", [](Tensor x) { all(x); }},
    {"any", [](Tensor x) { any(x); }},
    {"argmax", [](Tensor x) { argmax(x); }},
    {"argmin", [](Tensor x) { argmin(x); }},
    {"argsort", [](Tensor x) { argsort(x); }},
    {"attention", [](Tensor x) { attention(x, x, x, true); }},
    {"attention", [](Tensor x) { attention(x, x, x, {.mask = {.scores = x, .lengths = x}, .dropout = 0.1}); }},
    {"attention_packed", [](Tensor x) { attention_packed(x, 1, 1, true); }},
    {"attention_packed", [](Tensor x) { attention_packed(x, 1, 1, {.mask = {.keys = x}}); }},
    {"avg_pool2d", [](Tensor x) { avg_pool2d(x, {.kernel = 1}); }},
    {"backward", [](Tensor x) { backward(x); }},
    {"backward", [](Tensor x) { backward({x}, {1.0}); }},
    {"batch_norm", [](Tensor x) { batch_norm(x); }},
    {"binary_cross_entropy_with_logits", [](Tensor x) { binary_cross_entropy_with_logits(x, x); }},
    {"cast", [](Tensor x) { cast(x, Dtype::f16); }},
    {"cat",
     [](Tensor x) {
         cat({x, x});
     }},
    {"ceil", [](Tensor x) { ceil(x); }},
    {"clamp", [](Tensor x) { clamp(x, 0, 1); }},
    {"clone", [](Tensor x) { clone(x); }},
    {"contiguous", [](Tensor x) { contiguous(x); }},
    {"contiguous", [](Tensor x) { contiguous(x, MemoryFormat::channels_last); }},
    {"conv1d", [](Tensor x) { conv1d(x, x); }},
    {"conv2d", [](Tensor x) { conv2d(x, x); }},
    {"conv_transpose2d", [](Tensor x) { conv_transpose2d(x, x); }},
    {"cos", [](Tensor x) { cos(x); }},
    {"cosine_embedding_loss", [](Tensor x) { cosine_embedding_loss(x, x, x); }},
    {"cosine_similarity", [](Tensor x) { cosine_similarity(x, x); }},
    {"cross_entropy", [](Tensor x) { cross_entropy(x, x); }},
    {"cumsum", [](Tensor x) { cumsum(x, 0); }},
    {"dice_loss", [](Tensor x) { dice_loss(x, x); }},
    {"div", [](Tensor x) { div(x, x); }},
    {"dropout", [](Tensor x) { dropout(x, 0.1); }},
    {"dropout", [](Tensor x) { dropout(x, 0.1, false); }},
    {"dropout_add", [](Tensor x) { dropout_add(x, x, 0.1); }},
    {"dropout_add", [](Tensor x) { dropout_add(x, x, 0.1, false); }},
    {"einsum",
     [](Tensor x) {
         einsum("i,i", {x, x});
     }},
    {"elu", [](Tensor x) { elu(x); }},
    {"embedding", [](Tensor x) { embedding(x, x); }},
    {"eq", [](Tensor x) { eq(x, x); }},
    {"eq", [](Tensor x) { eq(x, 1.0); }},
    {"erf", [](Tensor x) { erf(x); }},
    {"exp", [](Tensor x) { exp(x); }},
    {"expand", [](Tensor x) { expand(x, {2}); }},
    {"expm1", [](Tensor x) { expm1(x); }},
    {"feed_forward", [](Tensor x) { feed_forward(x, x, x, x, x); }},
    {"flip", [](Tensor x) { flip(x, 0); }},
    {"floor", [](Tensor x) { floor(x); }},
    {"frozen_batch_norm", [](Tensor x) { frozen_batch_norm(x, x, x); }},
    {"full_like", [](Tensor x) { full_like(x, 1); }},
    {"gather", [](Tensor x) { gather(x, 0, x); }},
    {"ge", [](Tensor x) { ge(x, x); }},
    {"ge", [](Tensor x) { ge(x, 1.0); }},
    {"gelu", [](Tensor x) { gelu(x); }},
    {"glu", [](Tensor x) { glu(x); }},
    {"global_avg_pool2d", [](Tensor x) { global_avg_pool2d(x); }},
    {"group_norm", [](Tensor x) { group_norm(x, 1); }},
    {"gru",
     [](Tensor x) {
         gru(x, {{x, x, x, x}});
     }},
    {"gt", [](Tensor x) { gt(x, x); }},
    {"gt", [](Tensor x) { gt(x, 1.0); }},
    {"huber_loss", [](Tensor x) { huber_loss(x, x); }},
    {"index_select", [](Tensor x) { index_select(x, 0, x); }},
    {"instance_norm", [](Tensor x) { instance_norm(x); }},
    {"interpolate", [](Tensor x) { interpolate(x, {.scale = 2.0}); }},
    {"isfinite", [](Tensor x) { isfinite(x); }},
    {"isnan", [](Tensor x) { isnan(x); }},
    {"kl_div", [](Tensor x) { kl_div(x, x); }},
    {"kl_div", [](Tensor x) { kl_div(x, x, true); }},
    {"l1_loss", [](Tensor x) { l1_loss(x, x); }},
    {"layer_norm", [](Tensor x) { layer_norm(x); }},
    {"le", [](Tensor x) { le(x, x); }},
    {"le", [](Tensor x) { le(x, 1.0); }},
    {"leaky_relu", [](Tensor x) { leaky_relu(x); }},
    {"lerp", [](Tensor x) { lerp(x, x, 0.5); }},
    {"linear", [](Tensor x) { linear(x, x); }},
    {"linear_cross_entropy", [](Tensor x) { linear_cross_entropy(x, x, x); }},
    {"log", [](Tensor x) { log(x); }},
    {"log1p", [](Tensor x) { log1p(x); }},
    {"log_softmax", [](Tensor x) { log_softmax(x); }},
    {"logical_and", [](Tensor x) { logical_and(x, x); }},
    {"logical_not", [](Tensor x) { logical_not(x); }},
    {"logical_or", [](Tensor x) { logical_or(x, x); }},
    {"logsumexp", [](Tensor x) { logsumexp(x); }},
    {"lstm",
     [](Tensor x) {
         lstm(x, {{x, x, x, x}}, {x, x}, {.lengths = x});
     }},
    {"lt", [](Tensor x) { lt(x, x); }},
    {"lt", [](Tensor x) { lt(x, 1.0); }},
    {"masked_fill", [](Tensor x) { masked_fill(x, x, 0); }},
    {"matmul", [](Tensor x) { matmul(x, x); }},
    {"max", [](Tensor x) { max(x); }},
    {"max_pool2d", [](Tensor x) { max_pool2d(x, {.kernel = 1}); }},
    {"maximum", [](Tensor x) { maximum(x, x); }},
    {"mean", [](Tensor x) { mean(x); }},
    {"min", [](Tensor x) { min(x); }},
    {"minimum", [](Tensor x) { minimum(x, x); }},
    {"mse_loss", [](Tensor x) { mse_loss(x, x); }},
    {"mul", [](Tensor x) { mul(x, x); }},
    {"multinomial", [](Tensor x) { multinomial(x, 1); }},
    {"ne", [](Tensor x) { ne(x, x); }},
    {"ne", [](Tensor x) { ne(x, 1.0); }},
    {"neg", [](Tensor x) { neg(x); }},
    {"nll_loss", [](Tensor x) { nll_loss(x, x); }},
    {"nms", [](Tensor x) { nms(x, x, 0.5, {.groups = x}); }},
    {"norm", [](Tensor x) { norm(x); }},
    {"one_hot", [](Tensor x) { one_hot(x, 2); }},
    {"ones_like", [](Tensor x) { ones_like(x); }},
    {"operator!=", [](Tensor x) { static_cast<void>(x != x); }},
    {"operator!=", [](Tensor x) { static_cast<void>(x != 1); }},
    {"operator!=", [](Tensor x) { static_cast<void>(1 != x); }},
    {"operator*", [](Tensor x) { x* x; }},
    {"operator*", [](Tensor x) { x * 2; }},
    {"operator*", [](Tensor x) { 2.0 * x; }},
    {"operator+", [](Tensor x) { x + x; }},
    {"operator+", [](Tensor x) { 1.0 + (x + 1); }},
    {"operator-", [](Tensor x) { x - x; }},
    {"operator-", [](Tensor x) { x - 1; }},
    {"operator-", [](Tensor x) { 1.0 - x; }},
    {"operator-", [](Tensor x) { -x; }},
    {"operator/", [](Tensor x) { x / x; }},
    {"operator/", [](Tensor x) { x / 2; }},
    {"operator/", [](Tensor x) { 1 / x; }},
    {"operator<", [](Tensor x) { static_cast<void>(x < x); }},
    {"operator<", [](Tensor x) { static_cast<void>(x < 1); }},
    {"operator<", [](Tensor x) { static_cast<void>(1 < x); }},
    {"operator<=", [](Tensor x) { static_cast<void>(x <= x); }},
    {"operator<=", [](Tensor x) { static_cast<void>(x <= 1); }},
    {"operator<=", [](Tensor x) { static_cast<void>(1 <= x); }},
    {"operator==", [](Tensor x) { static_cast<void>(x == x); }},
    {"operator==", [](Tensor x) { static_cast<void>(x == 1); }},
    {"operator==", [](Tensor x) { static_cast<void>(1 == x); }},
    {"operator>", [](Tensor x) { static_cast<void>(x > x); }},
    {"operator>", [](Tensor x) { static_cast<void>(x > 1); }},
    {"operator>", [](Tensor x) { static_cast<void>(1 > x); }},
    {"operator>=", [](Tensor x) { static_cast<void>(x >= x); }},
    {"operator>=", [](Tensor x) { static_cast<void>(x >= 1); }},
    {"operator>=", [](Tensor x) { static_cast<void>(1 >= x); }},
    {"pad",
     [](Tensor x) {
         pad(x, {1, 1});
     }},
    {"pow", [](Tensor x) { pow(x, x); }},
    {"pow", [](Tensor x) { pow(x, 1.0); }},
    {"pow", [](Tensor x) { pow(x, 3); }},
    {"prod", [](Tensor x) { prod(x); }},
    {"rand_like", [](Tensor x) { rand_like(x); }},
    {"randn_like", [](Tensor x) { randn_like(x); }},
    {"reciprocal", [](Tensor x) { reciprocal(x); }},
    {"relu", [](Tensor x) { relu(x); }},
    {"repeat", [](Tensor x) { repeat(x, {2}); }},
    {"rms_norm", [](Tensor x) { rms_norm(x); }},
    {"roi_align",
     [](Tensor x) {
         roi_align(x, x, {2, 2});
     }},
    {"roll", [](Tensor x) { roll(x, 1, 0); }},
    {"rotary", [](Tensor x) { rotary(x); }},
    {"round", [](Tensor x) { round(x); }},
    {"rsqrt", [](Tensor x) { rsqrt(x); }},
    {"scatter_add", [](Tensor x) { scatter_add(x, 0, x, x); }},
    {"sigmoid", [](Tensor x) { sigmoid(x); }},
    {"sigmoid_focal_loss", [](Tensor x) { sigmoid_focal_loss(x, x); }},
    {"sign", [](Tensor x) { sign(x); }},
    {"silu", [](Tensor x) { silu(x); }},
    {"sin", [](Tensor x) { sin(x); }},
    {"smooth_l1_loss", [](Tensor x) { smooth_l1_loss(x, x); }},
    {"softmax", [](Tensor x) { softmax(x); }},
    {"softplus", [](Tensor x) { softplus(x); }},
    {"sort", [](Tensor x) { sort(x); }},
    {"sqrt", [](Tensor x) { sqrt(x); }},
    {"square", [](Tensor x) { square(x); }},
    {"stack",
     [](Tensor x) {
         stack({x, x});
     }},
    {"standard_deviation", [](Tensor x) { standard_deviation(x); }},
    {"sub", [](Tensor x) { sub(x, x); }},
    {"sum", [](Tensor x) { sum(x); }},
    {"swiglu", [](Tensor x) { swiglu(x, x); }},
    {"tanh", [](Tensor x) { tanh(x); }},
    {"topk", [](Tensor x) { topk(x, 1); }},
    {"tril", [](Tensor x) { tril(x); }},
    {"triu", [](Tensor x) { triu(x); }},
    {"var", [](Tensor x) { var(x); }},
    {"where", [](Tensor x) { where(x, x, x); }},
    {"zeros_like", [](Tensor x) { zeros_like(x); }},
};

}  // namespace headroom::test
