// Pointwise kernels, copies and randomness: elements per second of CPU time on one thread, in the second-level cache
// (8k elements) and beyond it (400k, the hidden layer of a small GPT), and the cost of a call on eight elements.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/dropout/dropout.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/random/random.hpp>

#include "limit.hpp"

namespace headroom::kernels {
namespace {

class Array {
  public:
    Array(kernels::Dtype dtype, const kernels::Shape& shape)
        : memory_(static_cast<std::size_t>(shape.numel()) * size_of(dtype)) {
        view_ = contiguous_view(memory_.data(), dtype, shape);
        kernels::CpuStream stream;
        normal(stream, op_key(1, 0), 0.0f, 1.0f, view_);
    }
    operator const kernels::View&() const { return view_; }
    const kernels::View& view() const { return view_; }

  private:
    std::vector<std::byte> memory_;
    kernels::View view_;
};

/// `bytes` for each element, read and written. One thread.
void count(benchmark::State& state, std::size_t bytes) {
    state.SetItemsProcessed(state.iterations() * state.range(0));
    bench::moved(state, state.range(0) * static_cast<std::int64_t>(bytes), 1);
}

template <class F>
void forward(benchmark::State& state, kernels::Dtype dtype = kernels::Dtype::f32) {
    kernels::CpuStream stream;
    Array x(dtype, {state.range(0)}), y(dtype, {state.range(0)});
    for (auto _ : state) map(stream, F{}, x, y);
    count(state, 2 * size_of(dtype));
}

template <class F>
void backward(benchmark::State& state, float beta, kernels::Dtype dtype = kernels::Dtype::f32) {
    kernels::CpuStream stream;
    Array x(dtype, {state.range(0)}), dy(dtype, {state.range(0)}), dx(dtype, {state.range(0)});
    for (auto _ : state) map_backward(stream, F{}, x, dy, beta, dx);
    count(state, (beta == 0 ? 3 : 4) * size_of(dtype));
}

template <class F>
void binary(benchmark::State& state, kernels::Dtype dtype = kernels::Dtype::f32) {
    kernels::CpuStream stream;
    Array a(dtype, {state.range(0)}), b(dtype, {state.range(0)}), y(dtype, {state.range(0)});
    for (auto _ : state) map(stream, F{}, a, b, y);
    count(state, 3 * size_of(dtype));
}

void add_bias(benchmark::State& state, std::int64_t width) {
    kernels::CpuStream stream;
    Array x(kernels::Dtype::f32, {state.range(0) / width, width}), bias(kernels::Dtype::f32, {width});
    for (auto _ : state) map(stream, Add{}, x, bias, x);
    count(state, 8);
}

void cast(benchmark::State& state, kernels::Dtype from, kernels::Dtype to) {
    kernels::CpuStream stream;
    Array x(from, {state.range(0)}), y(to, {state.range(0)});
    for (auto _ : state) copy(stream, x, y);
    count(state, size_of(from) + size_of(to));
}

void transpose(benchmark::State& state, kernels::Dtype dtype) {
    kernels::CpuStream stream;
    const std::int64_t side = state.range(0);
    Array x(dtype, {side, side}), y(dtype, {side, side});
    const kernels::View turned{x.view().data, dtype, {side, side}, {1, side}};
    for (auto _ : state) copy(stream, turned, y);
    state.SetItemsProcessed(state.iterations() * side * side);
    bench::moved(state, 2 * side * side * static_cast<std::int64_t>(size_of(dtype)), 1);
}

void add_onto(benchmark::State& state) {
    kernels::CpuStream stream;
    Array x(kernels::Dtype::f32, {state.range(0)}), y(kernels::Dtype::f32, {state.range(0)});
    for (auto _ : state) accumulate(stream, x, y, 0.5f, 1.0f);
    count(state, 12);
}

void draw_normal(benchmark::State& state) {
    kernels::CpuStream stream;
    Array y(kernels::Dtype::f32, {state.range(0)});
    for (auto _ : state) normal(stream, op_key(1, 0), 0.0f, 1.0f, y);
    count(state, 4);
}

void drop(benchmark::State& state) {
    kernels::CpuStream stream;
    Array x(kernels::Dtype::f32, {state.range(0)}), y(kernels::Dtype::f32, {state.range(0)});
    for (auto _ : state) dropout(stream, op_key(1, 0), 0.1f, x, y);
    count(state, 8);
}

const std::vector<std::int64_t> kLarge{8192, 393216};
const std::vector<std::int64_t> kAll{8, 8192, 393216};

template <class Work>
void add(const std::string& name, const std::vector<std::int64_t>& sizes, Work work) {
    auto* entry = benchmark::RegisterBenchmark(name.c_str(), work);
    for (const std::int64_t size : sizes) entry->Arg(size);
}

template <class F>
void add_function(const std::vector<std::int64_t>& sizes = kLarge) {
    add(F::name, sizes, [](benchmark::State& state) { forward<F>(state); });
}

template <class F>
void add_gradient() {
    add(std::string(F::name) + "_backward", kLarge, [](benchmark::State& state) { backward<F>(state, 0.0f); });
}

void add_functions() {
    add_function<Neg>(kAll);
    add_function<Exp>();
    add_function<Log>();
    add_function<Tanh>();
    add_function<GeluTanh>(kAll);
    add_function<GeluErf>();
    add_function<Silu>();
    add_function<Sin>();
    add_function<PowScalar>();
    add_gradient<GeluTanh>();
    add_gradient<GeluErf>();
    add_gradient<Tanh>();
    add("gelu_tanh_backward/accumulate", kLarge, [](benchmark::State& s) { backward<GeluTanh>(s, 1.0f); });
    add("add", kAll, [](benchmark::State& s) { binary<Add>(s); });
    add("lt", kLarge, [](benchmark::State& s) { binary<Less>(s); });
    for (const kernels::Dtype half : {kernels::Dtype::bf16, kernels::Dtype::f16}) {
        const std::string suffix = fmt::format("/{}", name(half));
        add("gelu_tanh" + suffix, kLarge, [half](benchmark::State& s) { forward<GeluTanh>(s, half); });
        add("gelu_tanh_backward" + suffix, kLarge, [half](benchmark::State& s) { backward<GeluTanh>(s, 0.0f, half); });
        add("add" + suffix, kLarge, [half](benchmark::State& s) { binary<Add>(s, half); });
    }
}

void add_others() {
    for (const std::int64_t width : {4, 32, 128, 512}) {
        add("add_bias/width:" + std::to_string(width), width == 4 ? std::vector<std::int64_t>{8} : kLarge,
            [width](benchmark::State& s) { add_bias(s, width); });
    }
    add("accumulate", kAll, add_onto);
    for (const auto& [from, to] : {std::pair{kernels::Dtype::f32, kernels::Dtype::bf16},
                                   {kernels::Dtype::bf16, kernels::Dtype::f32},
                                   {kernels::Dtype::f32, kernels::Dtype::f16},
                                   {kernels::Dtype::i64, kernels::Dtype::f32},
                                   {kernels::Dtype::f32, kernels::Dtype::f32}}) {
        add("copy/" + std::string(name(from)) + "_to_" + std::string(name(to)), kLarge,
            [from = from, to = to](benchmark::State& s) { cast(s, from, to); });
    }
    add("transpose/f32", {128, 768}, [](benchmark::State& s) { transpose(s, kernels::Dtype::f32); });
    add("transpose/bf16", {128, 768}, [](benchmark::State& s) { transpose(s, kernels::Dtype::bf16); });
    add("normal", kLarge, draw_normal);
    add("dropout", kAll, drop);
}

const bool kRegistered = [] {
    add_functions();
    add_others();
    return true;
}();

}  // namespace
}  // namespace headroom::kernels
