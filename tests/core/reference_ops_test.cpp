// Every op against PyTorch: values and gradients, in f64 and f32. The inputs of the reference can be represented in
// f32, so both see the same numbers.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
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
#include <headroom/core/ops/cumsum.hpp>
#include <headroom/core/ops/dice_loss.hpp>
#include <headroom/core/ops/einsum.hpp>
#include <headroom/core/ops/embedding.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/feed_forward.hpp>
#include <headroom/core/ops/group_norm.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/core/ops/layer_norm.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/core/ops/logsumexp.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/nll_loss.hpp>
#include <headroom/core/ops/norm.hpp>
#include <headroom/core/ops/one_hot.hpp>
#include <headroom/core/ops/prod.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/rms_norm.hpp>
#include <headroom/core/ops/rotary.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/core/ops/sort.hpp>
#include <headroom/core/ops/triangle.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>
#include <headroom/tests/support/reference.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom {
namespace reference_ops_test {

struct In {
    Context& context;
    Dtype dtype;
    std::vector<Tensor> x;
    const Tensor& operator[](std::size_t i) const { return x[i]; }
};

/// Of four classes, as in the script.
Tensor class_weights(const In& in) { return in.context.from_host(std::vector<double>{0.5, 1.0, 2.0, 0.25}, {4}); }

struct Case {
    const char* name;
    int length;  ///< terms that one element of a result or gradient sums up
    Tensor (*call)(const In& in);
};

// clang-format off
const Case kCases[] = {
    {"neg", 1, [](const In& x) { return -x[0]; }},
    {"exp", 1, [](const In& x) { return exp(x[0]); }},
    {"log", 1, [](const In& x) { return log(x[0]); }},
    {"sqrt", 1, [](const In& x) { return sqrt(x[0]); }},
    {"rsqrt", 1, [](const In& x) { return rsqrt(x[0]); }},
    {"reciprocal", 1, [](const In& x) { return reciprocal(x[0]); }},
    {"tanh", 1, [](const In& x) { return tanh(x[0]); }},
    {"sigmoid", 1, [](const In& x) { return sigmoid(x[0]); }},
    {"relu", 1, [](const In& x) { return relu(x[0]); }},
    {"gelu_tanh", 1, [](const In& x) { return gelu(x[0]); }},
    {"gelu_erf", 1, [](const In& x) { return gelu(x[0], Gelu::erf); }},
    {"silu", 1, [](const In& x) { return silu(x[0]); }},
    {"abs", 1, [](const In& x) { return abs(x[0]); }},
    {"square", 1, [](const In& x) { return square(x[0]); }},
    {"sin", 1, [](const In& x) { return sin(x[0]); }},
    {"cos", 1, [](const In& x) { return cos(x[0]); }},
    {"clamp", 1, [](const In& x) { return clamp(x[0], -0.5, 0.75); }},
    {"pow_cube", 1, [](const In& x) { return pow(x[0], 3.0); }},
    {"pow_scalar", 1, [](const In& x) { return pow(x[0], 2.5); }},
    {"expm1", 1, [](const In& x) { return expm1(x[0]); }},
    {"log1p", 1, [](const In& x) { return log1p(x[0]); }},
    {"erf", 1, [](const In& x) { return erf(x[0]); }},
    {"sign", 1, [](const In& x) { return sign(x[0]); }},
    {"floor", 1, [](const In& x) { return floor(x[0]); }},
    {"ceil", 1, [](const In& x) { return ceil(x[0]); }},
    {"leaky_relu", 1, [](const In& x) { return leaky_relu(x[0], 0.2); }},
    {"elu", 1, [](const In& x) { return elu(x[0], 1.5); }},
    {"softplus", 1, [](const In& x) { return softplus(x[0]); }},
    {"affine", 1, [](const In& x) { return x[0] * -1.5 + 0.25; }},
    {"number_minus", 1, [](const In& x) { return 2.0 - x[0]; }},
    {"number_over", 1, [](const In& x) { return 3.0 / x[0]; }},
    {"add", 15, [](const In& x) { return x[0] + x[1]; }},
    {"sub", 3, [](const In& x) { return x[0] - x[1]; }},
    {"mul", 5, [](const In& x) { return x[0] * x[1]; }},
    {"div", 10, [](const In& x) { return x[0] / x[1]; }},
    {"pow", 3, [](const In& x) { return pow(x[0], x[1]); }},
    {"maximum", 1, [](const In& x) { return maximum(x[0], x[1]); }},
    {"minimum", 4, [](const In& x) { return minimum(x[0], x[1]); }},
    {"where", 4, [](const In& x) { return where(x[0], x[1], x[2]); }},
    {"eq", 1, [](const In& x) { return eq(x[0], x[1]); }},
    {"ne", 1, [](const In& x) { return ne(x[0], x[1]); }},
    {"lt", 1, [](const In& x) { return lt(x[0], x[1]); }},
    {"le", 1, [](const In& x) { return le(x[0], x[1]); }},
    {"gt", 1, [](const In& x) { return gt(x[0], x[1]); }},
    {"ge", 1, [](const In& x) { return ge(x[0], x[1]); }},
    {"eq_number", 1, [](const In& x) { return eq(x[0], 1.0); }},
    {"ne_number", 1, [](const In& x) { return ne(x[0], 1.0); }},
    {"lt_number", 1, [](const In& x) { return lt(x[0], 1.0); }},
    {"le_number", 1, [](const In& x) { return le(x[0], 1.0); }},
    {"gt_number", 1, [](const In& x) { return gt(x[0], 1.0); }},
    {"ge_number", 1, [](const In& x) { return ge(x[0], 1.0); }},
    {"logical_and", 1, [](const In& x) { return logical_and(x[0], x[1]); }},
    {"logical_or", 1, [](const In& x) { return logical_or(x[0], x[1]); }},
    {"logical_not", 1, [](const In& x) { return logical_not(x[0]); }},
    {"isfinite", 1, [](const In& x) { return isfinite(reciprocal(floor(x[0]))); }},
    {"cast", 1, [](const In& x) { return cast(x[0], x.dtype == Dtype::f64 ? Dtype::f32 : Dtype::f64); }},
    {"contiguous", 1, [](const In& x) { return contiguous(x[0].transpose(0, 1)); }},
    {"expand", 8, [](const In& x) { return expand(x[0], {2, 3, 4}); }},
    {"cat", 1, [](const In& x) { return cat({x[0], x[1], x[2]}, 1); }},
    {"stack", 1, [](const In& x) { return stack({x[0], x[1]}, 1); }},
    {"gather", 3, [](const In& x) { return gather(x[0], 1, x[1]); }},
    {"scatter_add", 3, [](const In& x) { return scatter_add(x[0], 1, x[1], x[2]); }},
    {"index_select", 6, [](const In& x) { return index_select(x[0], 1, x[1]); }},
    {"arange", 1, [](const In& x) { return arange(x.context, 2.0, 9.0, 1.5, x.dtype); }},
    {"full", 1, [](const In& x) { return full(x.context, {2, 3}, 2.5, x.dtype); }},
    {"causal_mask", 1, [](const In& x) { return causal_mask(x.context, 3, 5); }},
    {"sum", 840, [](const In& x) { return sum(x[0]); }},
    {"sum_axes", 12, [](const In& x) { return sum(x[0], {0, 2}, true); }},
    {"mean", 70, [](const In& x) { return mean(x[0], 1); }},
    {"max", 1, [](const In& x) { return max(x[0], 1); }},
    {"min", 1, [](const In& x) { return min(x[0]); }},
    {"var", 70, [](const In& x) { return var(x[0], 1); }},
    {"var_population", 280, [](const In& x) { return var(x[0], {0, 1}, 0.0, true); }},
    {"argmax", 1, [](const In& x) { return argmax(x[0], 1); }},
    {"argmin", 1, [](const In& x) { return argmin(x[0], 1); }},
    {"softmax", 70, [](const In& x) { return softmax(x[0]); }},
    {"softmax_axis", 5, [](const In& x) { return softmax(x[0], 0); }},
    {"log_softmax", 70, [](const In& x) { return log_softmax(x[0]); }},
    {"log_softmax_axis", 7, [](const In& x) { return log_softmax(x[0], 1); }},
    {"layer_norm", 40, [](const In& x) { return layer_norm(x[0], x[1], x[2]); }},
    {"layer_norm_plain", 9, [](const In& x) { return layer_norm(x[0], {}, {}, 1e-3); }},
    {"rms_norm", 40, [](const In& x) { return rms_norm(x[0], x[1]); }},
    {"rms_norm_plain", 9, [](const In& x) { return rms_norm(x[0], {}, 1e-3); }},
    {"batch_norm", 60, [](const In& x) { return batch_norm(x[0], x[1], x[2]).y; }},
    {"batch_norm_relu", 60, [](const In& x) { return batch_norm(x[0], x[1], x[2], {.relu = true}).y; }},
    {"batch_norm_residual_relu", 60, [](const In& x) { return batch_norm(x[0], x[1], x[2], {.relu = true, .residual = x[3]}).y; }},
    {"frozen_batch_norm", 60, [](const In& x) { return frozen_batch_norm(x[0], x[3], x[4], x[1], x[2], {.relu = true}); }},
    {"group_norm", 60, [](const In& x) { return group_norm(x[0], 3, x[1], x[2]); }},
    {"instance_norm", 60, [](const In& x) { return instance_norm(x[0], x[1], x[2]); }},
    {"instance_norm_plain", 7, [](const In& x) { return instance_norm(x[0], {}, {}, 1e-3); }},
    {"matmul", 33, [](const In& x) { return matmul(x[0], x[1]); }},
    {"matmul_batched", 12, [](const In& x) { return matmul(x[0], x[1]); }},
    {"matmul_one_matrix", 30, [](const In& x) { return matmul(x[0], x[1]); }},
    {"matmul_vector", 10, [](const In& x) { return matmul(x[0], x[1]); }},
    {"matmul_row", 8, [](const In& x) { return matmul(x[0], x[1]); }},
    {"matmul_dot", 6, [](const In& x) { return matmul(x[0], x[1]); }},
    {"linear", 33, [](const In& x) { return linear(x[0], x[1], x[2]); }},
    {"linear_plain", 5, [](const In& x) { return linear(x[0], x[1]); }},
    {"linear_vector", 4, [](const In& x) { return linear(x[0], x[1], x[2]); }},
    {"conv2d", 84, [](const In& x) { return conv2d(x[0], x[1], x[2], {.padding = 1}); }},
    {"conv2d_strided", 56,
     [](const In& x) { return conv2d(x[0], x[1], {}, {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}}); }},
    {"conv2d_groups", 24,
     [](const In& x) { return conv2d(x[0], x[1], x[2], {.stride = 2, .padding = {0, 1}, .groups = 3}); }},
    {"conv1d", 16, [](const In& x) { return conv1d(x[0], x[1], x[2], {.stride = 2, .padding = 3, .dilation = 2}); }},
    {"conv_transpose2d", 160, [](const In& x) { return conv_transpose2d(x[0], x[1], x[2], {.stride = 2}); }},
    {"conv_transpose2d_padded", 54,
     [](const In& x) {
         return conv_transpose2d(x[0], x[1], {}, {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2},
                                                  .dilation = {2, 1}, .groups = 2});
     }},
    {"feed_forward", 260, [](const In& x) { return feed_forward(x[0], x[1], x[2], x[3], x[4]); }},
    {"feed_forward_erf", 260,
     [](const In& x) { return feed_forward(x[0], x[1], x[2], x[3], x[4], Activation::gelu_erf); }},
    {"feed_forward_relu", 260,
     [](const In& x) { return feed_forward(x[0], x[1], x[2], x[3], x[4], Activation::relu); }},
    {"feed_forward_plain", 35, [](const In& x) { return feed_forward(x[0], x[1], {}, x[2], {}, Activation::gelu_erf); }},
    {"embedding", 8, [](const In& x) { return embedding(x[0], x[1]); }},
    {"attention_packed", 37, [](const In& x) { return attention_packed(x[0], 2, 2, true); }},
    {"attention_packed_full", 9, [](const In& x) { return attention_packed(x[0], 3, 3, false); }},
    {"attention_packed_grouped", 34, [](const In& x) { return attention_packed(x[0], 4, 2, true, 0.3); }},
    {"attention", 9, [](const In& x) { return attention(x[0], x[1], x[2], false); }},
    {"attention_cached", 40, [](const In& x) { return attention(x[0], x[1], x[2], true); }},
    {"cross_entropy", 70, [](const In& x) { return cross_entropy(x[0], x[1]).sum(); }},
    {"cross_entropy_ignore", 13, [](const In& x) { return cross_entropy(x[0], x[1], {.ignore_index = 1}).sum(); }},
    {"cross_entropy_smooth", 13, [](const In& x) { return cross_entropy(x[0], x[1], {.label_smoothing = 0.1}).sum(); }},
    {"linear_cross_entropy", 70, [](const In& x) { return linear_cross_entropy(x[0], x[1], x[2]).sum(); }},
    {"linear_cross_entropy_options", 21,
     [](const In& x) { return linear_cross_entropy(x[0], x[1], x[2], {.ignore_index = 2, .label_smoothing = 0.2}).sum(); }},
    {"mse", 42, [](const In& x) { return mse_loss(x[0], x[1]).sum(); }},
    {"binary_cross_entropy_with_logits", 42, [](const In& x) { return binary_cross_entropy_with_logits(x[0], x[1]).sum(); }},
    {"cross_entropy_weights", 13, [](const In& x) { return cross_entropy(x[0], x[1], {.class_weights = class_weights(x)}).sum(); }},
    {"cross_entropy_weighted_mean", 13,
     [](const In& x) { return cross_entropy(x[0], x[1], {.ignore_index = 1, .class_weights = class_weights(x)}).mean(); }},
    {"cross_entropy_weights_smooth", 13,
     [](const In& x) {
         return cross_entropy(x[0], x[1], {.ignore_index = 2, .label_smoothing = 0.3, .class_weights = class_weights(x)}).mean();
     }},
    {"linear_cross_entropy_weights", 30,
     [](const In& x) {
         return linear_cross_entropy(x[0], x[1], x[2], {.ignore_index = 1, .label_smoothing = 0.1, .class_weights = class_weights(x)}).mean();
     }},
    {"l1", 42, [](const In& x) { return l1_loss(x[0], x[1]).sum(); }},
    {"smooth_l1", 42, [](const In& x) { return smooth_l1_loss(x[0], x[1], 0.7).sum(); }},
    {"nll", 13, [](const In& x) { return nll_loss(x[0], x[1]).sum(); }},
    {"nll_ignore", 13, [](const In& x) { return nll_loss(x[0], x[1], {.ignore_index = 1}).mean(); }},
    {"nll_weighted_mean", 13,
     [](const In& x) { return nll_loss(x[0], x[1], {.ignore_index = 2, .class_weights = class_weights(x)}).mean(); }},
    {"kl_div", 42, [](const In& x) { return kl_div(x[0], x[1]).mean(); }},
    {"kl_div_zero", 15, [](const In& x) { return kl_div(x[0], x.context.from_host(std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, {5, 3})).sum(); }},
    {"kl_div_log_target", 36, [](const In& x) { return kl_div(x[0], x[1], true).mean(); }},
    {"huber", 42, [](const In& x) { return huber_loss(x[0], x[1], 0.7).sum(); }},
    {"focal", 42, [](const In& x) { return sigmoid_focal_loss(x[0], x[1]).sum(); }},
    {"focal_of_classes", 42, [](const In& x) { return sigmoid_focal_loss(x[0], x[1], {.alpha = -1, .gamma = 1.5}).sum(); }},
    {"focal_gamma_0", 42, [](const In& x) { return sigmoid_focal_loss(x[0], x[1], {.alpha = 0.9, .gamma = 0}).sum(); }},
    {"dice", 40, [](const In& x) { return dice_loss(x[0], x[1]).mean(); }},
    {"dice_one_channel", 18, [](const In& x) { return dice_loss(x[0], x[1]).mean(); }},
    {"dice_probabilities", 40, [](const In& x) { return dice_loss(x[0], x[1]).mean(); }},
    {"cosine_similarity", 8, [](const In& x) { return cosine_similarity(x[0], x[1], 1); }},
    {"cosine_similarity_zero", 5, [](const In& x) { return cosine_similarity(x[0], x[1]); }},
    {"cosine_embedding", 40, [](const In& x) { return cosine_embedding_loss(x[0], x[1], x.context.from_host(std::vector<std::int64_t>{1, -1, 1, -1, -1}, {5}), 0.1).sum(); }},
    {"lerp", 4, [](const In& x) { return lerp(x[0], x[1], 0.3); }},
    {"rotary", 2, [](const In& x) { return rotary(x[0]); }},
    {"rotary_neighbours", 2, [](const In& x) { return rotary(x[0], 40, {.base = 500, .interleaved = true}); }},
    {"sort", 1, [](const In& x) { return sort(x[0], 1).values; }},
    {"sort_descending", 1, [](const In& x) { return sort(x[0], 0, true).values; }},
    {"topk", 1, [](const In& x) { return topk(x[0], 4).values; }},
    {"topk_smallest", 1, [](const In& x) { return topk(x[0], 6, 0, false).values; }},
    {"argsort", 1, [](const In& x) { return argsort(reciprocal(log(x[0])), 1); }},
    {"argsort_descending", 1, [](const In& x) { return argsort(reciprocal(log(x[0])), 1, true); }},
    {"topk_indices", 1, [](const In& x) { return topk(x[0], 7, 1).indices; }},
    {"cumsum", 70, [](const In& x) { return cumsum(x[0], 1); }},
    {"cumsum_integers", 1, [](const In& x) { return cumsum(x[0], 0); }},
    {"logsumexp", 12, [](const In& x) { return logsumexp(x[0], {0, 2}); }},
    {"logsumexp_rows", 70, [](const In& x) { return logsumexp(x[0], -1, true); }},
    {"std", 70, [](const In& x) { return standard_deviation(x[0], 1); }},
    {"std_population", 280, [](const In& x) { return standard_deviation(x[0], {0, 1}, 0.0, true); }},
    {"std_of_equals", 4, [](const In& x) { return standard_deviation(x[0] * 0.0 + 1.0, 1); }},
    {"norm", 70, [](const In& x) { return norm(x[0], 2.0, {1}); }},
    {"norm_of_zeros", 5, [](const In& x) { return norm(x[0] * 0.0, 2.0, 1); }},
    {"norm_3_of_zeros", 5, [](const In& x) { return norm(x[0] * 0.0, 3.0, 1); }},
    {"norm_0", 7, [](const In& x) { return norm(floor(x[0]), 0.0, 1); }},
    {"norm_1", 7, [](const In& x) { return norm(x[0], 1.0, 1); }},
    {"norm_3", 7, [](const In& x) { return norm(x[0], 3.0, 1); }},
    {"norm_half", 7, [](const In& x) { return norm(x[0], 0.5, 1); }},
    {"norm_inf", 1, [](const In& x) { return norm(x[0], INFINITY, 1); }},
    {"norm_minus_inf", 1, [](const In& x) { return norm(x[0], -INFINITY, 1); }},
    {"prod", 9, [](const In& x) { return prod(x[0], 1); }},
    {"prod_all", 10, [](const In& x) { return prod(x[0]); }},
    {"prod_zeros", 5, [](const In& x) { return prod(x[0] * x[1], 1); }},
    {"prod_integers", 1, [](const In& x) { return prod(x[0], 0); }},
    {"any", 1, [](const In& x) { return any(x[0], 1); }},
    {"any_numbers", 1, [](const In& x) { return any(x[0]); }},
    {"all", 1, [](const In& x) { return all(x[0], 1); }},
    {"all_numbers", 1, [](const In& x) { return all(x[0]); }},
    {"round", 1, [](const In& x) { return round(x[0]); }},
    {"isnan", 1, [](const In& x) { return isnan(log(x[0])); }},
    {"masked_fill", 1, [](const In& x) { return masked_fill(x[0], x[1], -1.5); }},
    {"masked_fill_integers", 1, [](const In& x) { return masked_fill(x[0], x[1], -3.0); }},
    {"glu", 1, [](const In& x) { return glu(x[0], 1); }},
    {"swiglu", 1, [](const In& x) { return swiglu(x[0], x[1]); }},
    {"tril", 1, [](const In& x) { return tril(x[0], 1); }},
    {"triu", 1, [](const In& x) { return triu(x[0], -1); }},
    {"flip", 1, [](const In& x) { return flip(x[0], {0, 2}); }},
    {"roll", 1, [](const In& x) { return roll(x[0], -2, 1); }},
    {"roll_far", 1, [](const In& x) { return roll(x[0], 13, 0); }},
    {"repeat", 6, [](const In& x) { return repeat(x[0], {2, 1, 3}); }},
    {"repeat_twice", 6, [](const In& x) { return repeat(x[0].transpose(0, 1), {3, 2}); }},
    {"one_hot", 1, [](const In& x) { return one_hot(x[0], 6); }},
    {"linspace", 1, [](const In& x) { return linspace(x.context, -2.0, 5.0, 9, x.dtype); }},
    {"linspace_even", 1, [](const In& x) { return linspace(x.context, 3.0, 0.1, 6, x.dtype); }},
    {"einsum_transpose", 1, [](const In& x) { return einsum("ij->ji", {x[0]}); }},
    {"einsum_sum", 8, [](const In& x) { return einsum("ijk->j", {x[0]}); }},
    {"einsum_implicit", 1, [](const In& x) { return einsum("ba", {x[0]}); }},
    {"einsum_matmul", 5, [](const In& x) { return einsum("ij,jk->ik", {x[0], x[1]}); }},
    {"einsum_batched", 5, [](const In& x) { return einsum("bij,bjk->bik", {x[0], x[1]}); }},
    {"einsum_heads", 5, [](const In& x) { return einsum("bthd,bshd->bhts", {x[0], x[1]}); }},
    {"einsum_outer", 4, [](const In& x) { return einsum("i, j -> ji", {x[0], x[1]}); }},
    {"einsum_dot", 6, [](const In& x) { return einsum("i,i", {x[0], x[1]}); }},
    {"einsum_elementwise", 1, [](const In& x) { return einsum("ij,ji->ij", {x[0], x[1]}); }},
    {"einsum_summed_apart", 20, [](const In& x) { return einsum("ijk,jl->il", {x[0], x[1]}); }},
    {"einsum_bilinear", 5, [](const In& x) { return einsum("bi,bij->bj", {x[0], x[1]}); }},
};
// clang-format on

const test::Reference& reference() {
    static const test::Reference file(test::source_path("tests/reference/ops.safetensors"));
    return file;
}

Tensor upload(Context& context, const test::ReferenceTensor& tensor, Dtype dtype) {
    const std::vector<double>& values = tensor.values;
    if (tensor.dtype == "I64") {
        return context.from_host(std::vector<std::int64_t>(values.begin(), values.end()), tensor.shape);
    }
    if (tensor.dtype == "U8") {
        return cast(context.from_host(std::vector<std::uint8_t>(values.begin(), values.end()), tensor.shape),
                    Dtype::boolean);
    }
    if (dtype == Dtype::f64) return context.from_host(values, tensor.shape);
    return context.from_host(std::vector<float>(values.begin(), values.end()), tensor.shape);
}

class ReferenceOps : public ::testing::TestWithParam<Case> {
  protected:
    /// A sum of n products has an error of at most n epsilon times the sum of their sizes, itself at most n times the
    /// largest; the elementary functions add a few units in the last place.
    void compare(Dtype dtype) {
        const std::string name = GetParam().name;
        Context context = Context::cpu({.threads = 2});
        In in{context, dtype, {}};
        for (int i = 0; reference().has(key("in", i)); ++i) {
            Tensor x = upload(context, reference().at(key("in", i)), dtype);
            if (reference().has(key("grad", i))) x.requires_grad_();
            in.x.push_back(x);
        }
        const Tensor y = GetParam().call(in);
        expect_close(y, key("out", 0), dtype);
        if (!reference().has(key("grad", 0))) return;
        const bool scalar = y.rank() == 0;
        backward(scalar ? y : sum(y * upload(context, reference().at(name + "/dy"), dtype)));
        for (int i = 0; i < static_cast<int>(in.x.size()); ++i) {
            if (reference().has(key("grad", i)))
                expect_close(in.x[static_cast<std::size_t>(i)].grad(), key("grad", i), dtype);
        }
    }

  private:
    static std::string key(const char* what, int i) {
        return std::string(GetParam().name) + "/" + what + std::to_string(i);
    }

    static void expect_close(const Tensor& got, const std::string& name, Dtype dtype) {
        ASSERT_TRUE(got.defined()) << name;
        const test::ReferenceTensor& want = reference().at(name);
        EXPECT_EQ(got.shape(), want.shape) << name << ": " << got.shape().to_string() << " " << want.shape.to_string();
        const double errors = test::error_in_epsilons(got.to_vector<double>(), want.values, epsilon(dtype));
        EXPECT_LE(errors, 8.0 * (GetParam().length + 8)) << name;
    }
};

TEST_P(ReferenceOps, AgreesWithPyTorchInF64) { compare(Dtype::f64); }

TEST_P(ReferenceOps, AgreesWithPyTorchInF32) { compare(Dtype::f32); }

INSTANTIATE_TEST_SUITE_P(All, ReferenceOps, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ReferenceFile, HoldsTheSameCasesAsTheTest) {
    std::set<std::string> in_file, here;
    for (const auto& [name, tensor] : reference().all()) in_file.insert(name.substr(0, name.find('/')));
    for (const Case& one : kCases) here.insert(one.name);
    EXPECT_EQ(in_file, here);
}

}  // namespace reference_ops_test
}  // namespace headroom
