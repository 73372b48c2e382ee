// Kernels that pass over activations and parameters once: elementwise ones, norms of rows, reductions, losses, casts,
// embeddings and the optimizer.
#include <fmt/format.h>

#include <headroom/bench/gpu/kernel_shares/bench.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/cross_entropy/cross_entropy.hpp>
#include <headroom/kernels/dropout/dropout.hpp>
#include <headroom/kernels/embedding/embedding.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/layer_norm/layer_norm.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/optimizer/adamw.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/kernels/rms_norm/rms_norm.hpp>
#include <headroom/kernels/softmax/softmax.hpp>
#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>

namespace headroom::shares {

using namespace kernels;

namespace {

void pointwise(Bench& bench, const Sizes& sizes, Dtype dtype, const std::string& suffix) {
    const View x = bench.array(dtype, {sizes.rows, 4 * sizes.width}),
               y = bench.array(dtype, {sizes.rows, 4 * sizes.width}),
               z = bench.array(dtype, {sizes.rows, 4 * sizes.width}), row = bench.array(dtype, {4 * sizes.width});
    CudaStream& stream = bench.stream();
    bench.measure("gelu" + suffix, 2 * bytes_of(x), 0, [&] { map(stream, GeluTanh{}, x, y); });
    bench.measure("gelu_backward" + suffix, 3 * bytes_of(x), 0,
                  [&] { map_backward(stream, GeluTanh{}, x, y, 0.0f, z); });
    bench.measure("add" + suffix, 3 * bytes_of(x), 0, [&] { map(stream, Add{}, x, y, z); });
    bench.measure("add_row" + suffix, 2 * bytes_of(x), 0, [&] { map(stream, Add{}, x, row, z); });
    bench.measure("dropout" + suffix, 2 * bytes_of(x), 0, [&] { dropout(stream, op_key(1, 2), 0.1f, x, y); });
    bench.measure("dropout_add" + suffix, 3 * bytes_of(x), 0,
                  [&] { dropout_add(stream, op_key(1, 2), 0.1f, x, y, z); });
    bench.measure("accumulate" + suffix, 3 * bytes_of(x), 0, [&] { accumulate(stream, x, y, 1.0f, 1.0f); });
    bench.forget();
}

void norms(Bench& bench, const Sizes& sizes, Dtype dtype, const std::string& suffix) {
    const View x = bench.array(dtype, {sizes.rows, sizes.width}), y = bench.array(dtype, {sizes.rows, sizes.width}),
               dx = bench.array(dtype, {sizes.rows, sizes.width}), gamma = bench.array(Dtype::f32, {sizes.width}),
               beta = bench.array(Dtype::f32, {sizes.width}), mean = bench.array(Dtype::f32, {sizes.rows}),
               rstd = bench.array(Dtype::f32, {sizes.rows});
    CudaStream& stream = bench.stream();
    bench.measure("layer_norm" + suffix, 2 * bytes_of(x), 0,
                  [&] { layer_norm(stream, x, &gamma, &beta, 1e-5, y, mean, rstd); });
    bench.measure("layer_norm_backward" + suffix, 3 * bytes_of(x), 0,
                  planned<LayerNormGradientPlan>(bench, x, y, &gamma, mean, rstd,
                                                 LayerNormGradients{.x = &dx, .gamma = &gamma, .beta = &beta}));
    bench.measure("rms_norm" + suffix, 2 * bytes_of(x), 0, [&] { rms_norm(stream, x, &gamma, 1e-5, y, rstd); });
    bench.measure("rms_norm_backward" + suffix, 3 * bytes_of(x), 0,
                  planned<RmsNormGradientPlan>(bench, x, y, &gamma, rstd, RmsNormGradients{.x = &dx, .gamma = &gamma}));
    bench.measure("softmax" + suffix, 2 * bytes_of(x), 0, [&] { softmax(stream, x, y); });
    bench.measure("softmax_backward" + suffix, 3 * bytes_of(x), 0, [&] { softmax_backward(stream, y, x, dx, 0.0f); });
    bench.forget();
}

void reductions(Bench& bench, const Sizes& sizes, Dtype dtype, const std::string& suffix) {
    const View dy = bench.array(dtype, {sizes.rows, 4 * sizes.width}),
               bias = bench.array(Dtype::f32, {4 * sizes.width}), rows = bench.array(Dtype::f32, {sizes.rows, 1}),
               square = bench.array(Dtype::f64, {}), flat = contiguous_view(dy.data, dtype, {dy.numel()});
    bench.measure("sum of columns" + suffix, bytes_of(dy), 0, planned<SumPlan>(bench, dy, 1.0, bias, 0.0f));
    bench.measure("sum of rows" + suffix, bytes_of(dy), 0, planned<SumPlan>(bench, dy, 1.0, rows, 0.0f));
    bench.measure("sum_of_squares" + suffix, bytes_of(dy), 0, planned<SumOfSquaresPlan>(bench, flat, square, 0.0f));
    bench.forget();
}

void losses(Bench& bench, const Sizes& sizes, Dtype dtype, const std::string& suffix) {
    const std::int64_t rows = sizes.rows / 8;
    const View logits = bench.array(dtype, {rows, sizes.classes}),
               targets = bench.array(Dtype::i32, {rows}, sizes.classes), lse = bench.array(Dtype::f32, {rows, 2}),
               loss = bench.array(Dtype::f32, {}), terms = bench.array(Dtype::f64, {}),
               dlogits = bench.array(dtype, {rows, sizes.classes});
    CudaStream& stream = bench.stream();
    bench.measure("cross_entropy" + suffix, bytes_of(logits), 0,
                  planned<CrossEntropyPlan>(bench, logits, targets, ClassWeights{}, CrossEntropyOptions{}, loss, terms,
                                            0.0f, lse));
    bench.measure("cross_entropy_backward" + suffix, 2 * bytes_of(logits), 0,
                  [&] { cross_entropy_backward(stream, logits, targets, {}, {}, lse, loss, dlogits, 0.0f); });
    bench.forget();
}

}  // namespace

void passes(Bench& bench, const Sizes& sizes, Dtype dtype) {
    const std::string suffix = fmt::format(" {}", name(dtype));
    pointwise(bench, sizes, dtype, suffix);
    norms(bench, sizes, dtype, suffix);
    reductions(bench, sizes, dtype, suffix);
    losses(bench, sizes, dtype, suffix);
}

void casts(Bench& bench, const Sizes& sizes) {
    const View wide = bench.array(Dtype::f32, {sizes.rows, 4 * sizes.width}),
               narrow = bench.array(Dtype::bf16, {sizes.rows, 4 * sizes.width}),
               other = bench.array(Dtype::bf16, {sizes.rows, 4 * sizes.width});
    CudaStream& stream = bench.stream();
    bench.measure("cast f32 to bf16", bytes_of(wide) + bytes_of(narrow), 0, [&] { copy(stream, wide, narrow); });
    bench.measure("cast bf16 to f32", bytes_of(wide) + bytes_of(narrow), 0, [&] { copy(stream, narrow, wide); });
    bench.measure("copy bf16", 2 * bytes_of(narrow), 0, [&] { copy(stream, narrow, other); });
    View across = contiguous_view(other.data, Dtype::bf16, {4 * sizes.width, sizes.rows});
    bench.measure("transpose bf16", 2 * bytes_of(narrow), 0, [&] { copy(stream, transposed(narrow), across); });
    bench.forget();
}

void embeddings(Bench& bench, const Sizes& sizes) {
    const View table = bench.array(Dtype::f32, {sizes.classes, sizes.width}),
               ids = bench.array(Dtype::i32, {sizes.rows}, sizes.classes),
               y = bench.array(Dtype::f32, {sizes.rows, sizes.width});
    CudaStream& stream = bench.stream();
    bench.measure("embedding f32", 2 * bytes_of(y), 0, [&] { embedding(stream, table, ids, y); });
    bench.measure("embedding_backward f32", bytes_of(y) + 2 * bytes_of(table), 0,
                  planned<EmbeddingGradientPlan>(bench, ids, y, table, 1.0f));
    bench.forget();
}

void optimizer(Bench& bench, const Sizes& sizes) {
    const View p = bench.array(Dtype::f32, {sizes.parameters}), g = bench.array(Dtype::f32, {sizes.parameters}),
               m = bench.array(Dtype::f32, {sizes.parameters}), v = bench.array(Dtype::f32, {sizes.parameters}),
               rate = bench.array(Dtype::f64, {}), multiplier = bench.array(Dtype::f64, {}),
               steps = bench.array(Dtype::f64, {});
    CudaStream& stream = bench.stream();
    map(stream, Square{}, v, v);  // second moments are not negative
    fill(stream, 9.0, steps);
    bench.measure("adamw f32", 7 * bytes_of(p), 0, [&] { adamw(stream, {}, rate, multiplier, steps, g, p, m, v); });
    bench.forget();
}

}  // namespace headroom::shares
