// Matrix products as training asks for them, and attention.
#include <cmath>

#include <fmt/format.h>

#include <headroom/bench/gpu/kernel_shares/bench.hpp>
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/matmul/internal/activate.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/reduce/reduce.hpp>

namespace headroom::shares {

using namespace kernels;

namespace {

/// What the product needs, whether it's done at once or in parts.
struct Work {
    double bytes, operations;

    explicit Work(const Matmul& product)
        : bytes(bytes_of(product.a) + bytes_of(product.b) + bytes_of(product.c)),
          operations(2 * static_cast<double>(product.c.numel()) * static_cast<double>(product.a.size(1))) {
        if (product.has_inner()) bytes += bytes_of(product.inner);
        if (product.has_outer()) bytes += bytes_of(product.outer);
    }
};

void matmul(Bench& bench, const std::string& name, const Matmul& product) {
    const Work work(product);
    bench.measure(name, work.bytes, work.operations, planned<MatmulPlan>(bench, product));
}

/// Also as it is done where the library's epilogues can't: the product is the library's, passes of our own the rest.
void fused_matmul(Bench& bench, const std::string& name, const Matmul& product) {
    matmul(bench, name, product);
    const Work work(product);
    Matmul alone{.a = product.a, .b = product.b, .c = product.c, .bias = product.bias, .beta = product.beta};
    if (product.has_inner() && !product.derivative) alone.c = product.inner;
    const auto run = planned<MatmulPlan>(bench, alone);
    View sums = product.sums;
    sums.shape.push_back(1);
    sums.strides.push_back(1);
    const auto run_sums = planned<SumPlan>(bench, product.a, 1.0, sums, product.sums_beta);
    bench.measure(name + ", by parts", work.bytes, work.operations, [&] {
        if (product.has_sums()) run_sums();
        run();
        if (product.has_inner()) finish_activation(bench.stream(), product);
    });
}

}  // namespace

/// An MLP's products as training asks for them, see kernels/matmul.
void products(Bench& bench, const Sizes& sizes) {
    const View x = bench.array(Dtype::bf16, {sizes.rows, sizes.width}),
               w = bench.array(Dtype::bf16, {4 * sizes.width, sizes.width}),
               y = bench.array(Dtype::bf16, {sizes.rows, 4 * sizes.width}),
               dw = bench.array(Dtype::f32, {4 * sizes.width, sizes.width}),
               bias = bench.array(Dtype::bf16, {4 * sizes.width}),
               down = bench.array(Dtype::bf16, {sizes.width, 4 * sizes.width}),
               inner = bench.array(Dtype::bf16, {sizes.rows, 4 * sizes.width}),
               sums = bench.array(Dtype::f32, {4 * sizes.width});
    constexpr auto gelu = Activation::gelu_tanh;
    const View wt = transposed(w), yt = transposed(y);
    matmul(bench, "linear bf16", {.a = x, .b = wt, .c = y, .bias = bias});
    matmul(bench, "linear dx bf16", {.a = y, .b = w, .c = x});
    matmul(bench, "linear dweight bf16 to f32", {.a = yt, .b = x, .c = dw, .beta = 1});
    fused_matmul(bench, "linear dweight, dbias bf16 to f32",
                 {.a = yt, .b = x, .c = dw, .beta = 1, .sums = sums, .sums_beta = 1});
    fused_matmul(bench, "linear gelu bf16",
                 {.a = x, .b = wt, .c = y, .bias = bias, .activation = gelu, .inner = inner});
    fused_matmul(bench, "linear dgelu bf16",
                 {.a = x, .b = down, .c = y, .activation = gelu, .inner = inner, .derivative = true, .outer = inner});
    bench.forget();
}

void attention(Bench& bench, const Sizes& sizes, Dtype dtype) {
    const std::string suffix = fmt::format(" {}", name(dtype));
    const std::int64_t batch = sizes.batch, time = sizes.time, heads = sizes.heads, width = sizes.head_width;
    const Shape shape{batch, time, heads, width};
    const View q = bench.array(dtype, shape), k = bench.array(dtype, shape), v = bench.array(dtype, shape),
               o = bench.array(dtype, shape), dy = bench.array(dtype, shape), dq = bench.array(dtype, shape),
               dk = bench.array(dtype, shape), dv = bench.array(dtype, shape),
               lse = bench.array(Dtype::f32, {batch, heads, time});
    const Attention forward{
        .q = q, .k = k, .v = v, .o = o, .lse = lse, .causal = true, .scale = 1 / std::sqrt(static_cast<double>(width))};
    const AttentionGradient backward{.q = q,
                                     .k = k,
                                     .v = v,
                                     .o = o,
                                     .lse = lse,
                                     .dy = dy,
                                     .dq = dq,
                                     .dk = dk,
                                     .dv = dv,
                                     .causal = true,
                                     .scale = forward.scale};
    // Two products of T x T x D, half of which the mask leaves; backward has five.
    const double product = static_cast<double>(batch * heads * time * time * width);
    const auto run_forward = planned<AttentionPlan>(bench, forward);
    const auto run_backward = planned<AttentionGradientPlan>(bench, backward);
    bool& own = bench.stream().compute.own_kernels;
    for (const bool without_library : {false, true}) {
        if (without_library && !is_half(dtype)) break;  // it was not asked
        own = without_library;
        const std::string who = without_library ? ", own kernels" : "";
        bench.measure("attention" + suffix + who, 4 * bytes_of(q), 2 * product, run_forward);
        bench.measure("attention_gradient" + suffix + who, 8 * bytes_of(q), 5 * product, run_backward);
    }
    own = false;
    bench.forget();
}

}  // namespace headroom::shares
