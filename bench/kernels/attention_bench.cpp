// Attention on packed q, k, v at the sizes of two GPTs and at a long sequence, forward and gradient. GFLOP/s counts
// what the causal mask lets through: 4 T S D per head forward, 10 for the gradient, half of it if causal. `besides`: 1
// a mask of keys, 2 lengths of three quarters, 3 dropout. HEADROOM_THREADS: 2.
#include <cmath>
#include <vector>

#include <benchmark/benchmark.h>

#include <headroom/kernels/attention/attention.hpp>

#include "limit.hpp"
#include "product_rate.hpp"

namespace headroom::kernels {
namespace {

using bench::thread_count;

struct Problem {
    explicit Problem(const benchmark::State& state)
        : batch(state.range(0)),
          length(state.range(1)),
          heads(state.range(2)),
          width(state.range(3)),
          causal(state.range(4) != 0),
          besides(state.range(5)),
          row(heads * width),
          packed(numbers(3)),
          dpacked(numbers(3)),
          output(numbers(1)),
          doutput(numbers(1)),
          sums(static_cast<std::size_t>(batch * length * heads)),
          seen(static_cast<std::size_t>(batch * length), 1),
          lengths(static_cast<std::size_t>(batch), length * 3 / 4) {}

    std::vector<float> numbers(std::int64_t parts) const {
        std::vector<float> result(static_cast<std::size_t>(parts * batch * length * row));
        for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>(i * 7919 % 257) / 128 - 1;
        return result;
    }
    kernels::View slice(std::vector<float>& from, std::int64_t part) const {
        return {from.data() + part * row,
                kernels::Dtype::f32,
                {batch, length, heads, width},
                {length * 3 * row, 3 * row, width, 1}};
    }
    AttentionMask mask() {
        AttentionMask result;
        if (besides == 1) {
            result.values = broadcast_to(contiguous_view(seen.data(), kernels::Dtype::boolean, {batch, 1, 1, length}),
                                         {batch, heads, length, length});
        } else if (besides == 2) {
            result.lengths = contiguous_view(lengths.data(), kernels::Dtype::i64, {batch});
        }
        return result;
    }
    AttentionDropout dropout() const { return {besides == 3 ? 0.1f : 0.0f, op_key(1, 2)}; }
    Attention forward() {
        return {slice(packed, 0),
                slice(packed, 1),
                slice(packed, 2),
                contiguous_view(output.data(), kernels::Dtype::f32, {batch, length, heads, width}),
                contiguous_view(sums.data(), kernels::Dtype::f32, {batch, heads, length}),
                causal,
                1 / std::sqrt(static_cast<double>(width)),
                mask(),
                dropout()};
    }
    AttentionGradient gradient() {
        const Attention f = forward();
        return {f.q,
                f.k,
                f.v,
                f.o,
                f.lse,
                contiguous_view(doutput.data(), kernels::Dtype::f32, f.o.shape),
                slice(dpacked, 0),
                slice(dpacked, 1),
                slice(dpacked, 2),
                0,
                0,
                0,
                causal,
                f.scale,
                f.mask,
                f.dropout};
    }
    /// `products`: matrix products of T x S x D.
    void count(benchmark::State& state, double products) const {
        const double flops = 2 * products * static_cast<double>(batch * heads * length * length * width);
        bench::multiplied(state, causal ? flops / 2 : flops, bench::product_rate(kernels::Dtype::f32));
    }

    std::int64_t batch, length, heads, width;
    bool causal;
    std::int64_t besides;
    std::int64_t row;
    std::vector<float> packed, dpacked, output, doutput, sums;
    std::vector<std::uint8_t> seen;
    std::vector<std::int64_t> lengths;
};

std::byte* align(std::vector<std::byte>& memory) {
    return memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
}

void forward(benchmark::State& state) {
    Problem problem(state);
    kernels::StreamState kept;
    kernels::CpuStream stream{thread_count(), &kept};
    const AttentionPlan plan(stream, problem.forward());
    std::vector<std::byte> scratch(plan.scratch() + 64);
    for (auto _ : state) plan.run(stream, align(scratch));
    problem.count(state, 2);
}

void gradient(benchmark::State& state) {
    Problem problem(state);
    kernels::StreamState kept;
    kernels::CpuStream stream{thread_count(), &kept};
    const AttentionPlan forward(stream, problem.forward());
    std::vector<std::byte> scratch(forward.scratch() + 64);
    forward.run(stream, align(scratch));
    const AttentionGradientPlan plan(stream, problem.gradient());
    scratch.resize(plan.scratch() + 64);
    for (auto _ : state) plan.run(stream, align(scratch));
    problem.count(state, 5);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
    benchmark->UseRealTime()->ArgNames({"batch", "length", "heads", "width", "causal", "besides"});
    benchmark->Args({12, 64, 4, 32, 1, 0})->Args({12, 64, 4, 32, 0, 0})->Args({4, 256, 12, 64, 1, 0});
    benchmark->Args({1, 2048, 8, 64, 1, 0})->Args({1, 1024, 8, 128, 1, 0});
    for (const std::int64_t besides : {0, 1, 2, 3}) benchmark->Args({4, 128, 12, 64, 0, besides});
}
BENCHMARK(forward)->Apply(sizes);
BENCHMARK(gradient)->Apply(sizes);

}  // namespace
}  // namespace headroom::kernels
