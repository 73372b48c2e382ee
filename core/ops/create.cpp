#include <headroom/core/ops/create.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/draw_guard.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/random/random.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

OpResult<Arange::Saved, Array> Arange::forward(Exec& exec, const Attrs& attrs) {
    const double count = std::ceil((attrs.stop - attrs.start) / attrs.step);
    if (attrs.step == 0.0 || !(std::abs(count) < 0x1p63)) {
        throw Error(fmt::format("arange: can't go from {} to {} in steps of {}", attrs.start, attrs.stop, attrs.step));
    }
    Array y = exec.empty({std::max<std::int64_t>(0, static_cast<std::int64_t>(count))}, attrs.dtype);
    exec.launch([&](auto& stream) { kernels::arange(stream, attrs.start, attrs.step, y.view()); });
    return {{}, std::move(y)};
}

std::vector<Sample<Arange::Attrs>> Arange::samples() {
    return {{"integers", {.stop = 7.0}, {}},
            {"fractions", {.start = 1.0, .stop = 0.0, .step = -0.25, .dtype = Dtype::f32}, {}},
            {"none", {.start = 3.0, .stop = 3.0}, {}},
            {"no step", {.stop = 7.0, .step = 0.0}, {}, "in steps of 0"}};
}

OpResult<Linspace::Saved, Array> Linspace::forward(Exec& exec, const Attrs& attrs) {
    check_floating("linspace", "dtype", attrs.dtype);
    Array y = exec.empty({attrs.steps}, attrs.dtype);
    const double step = (attrs.stop - attrs.start) / static_cast<double>(std::max<std::int64_t>(1, attrs.steps - 1));
    const std::int64_t first = (attrs.steps + 1) / 2, rest = attrs.steps - first;
    exec.launch([&](auto& stream) {  // from both ends, so that both are exact
        kernels::arange(stream, attrs.start, step, {y.view().data, attrs.dtype, {first}, {1}});
        if (rest > 0)
            kernels::arange(stream, attrs.stop, -step, {y.view().at(attrs.steps - 1), attrs.dtype, {rest}, {-1}});
    });
    return {{}, std::move(y)};
}

std::vector<Sample<Linspace::Attrs>> Linspace::samples() {
    return {{"a few", {-1.0, 2.0, 7}, {}},
            {"downwards", {3.0, 1.0, 4, Dtype::f64}, {}},
            {"one", {3.0, 1.0, 1, Dtype::bf16}, {}},
            {"none", {3.0, 1.0, 0}, {}},
            {"negative", {3.0, 1.0, -1}, {}, "negative size"},
            {"integers", {3.0, 1.0, 2, Dtype::i32}, {}, "dtype must be floating"}};
}

namespace {

Array arranged(Exec& exec, const Shape& shape, const Strides& like, Dtype dtype) {
    return like.rank() == shape.rank() ? exec.empty_like(shape, like, dtype) : exec.empty(shape, dtype);
}

}  // namespace

OpResult<Full::Saved, Array> Full::forward(Exec& exec, const Attrs& attrs) {
    Array y = arranged(exec, attrs.shape, attrs.like, attrs.dtype);
    exec.launch([&](auto& stream) { kernels::fill(stream, attrs.value, y.view()); });
    return {{}, std::move(y)};
}

std::vector<Sample<Full::Attrs>> Full::samples() {
    return {{"matrix", {{2, 3}, 1.5}, {}},
            {"half", {{5}, -1e9, Dtype::bf16}, {}},
            {"scalar", {{}, 2.0, Dtype::i64}, {}},
            {"empty", {{0, 4}, 1.0}, {}},
            {"negative size", {{2, -1}, 1.0}, {}, "negative size"}};
}

template <bool kNormal>
OpResult<typename Random<kNormal>::Saved, Array> Random<kNormal>::forward(Exec& exec, const Attrs& attrs) {
    check_floating(info.name, "dtype", attrs.dtype);
    Array y = arranged(exec, attrs.shape, attrs.like, attrs.dtype);
    exec.launch([&](auto& stream) {
        if constexpr (kNormal) {
            kernels::normal(stream, attrs.key, attrs.first, attrs.second, y.view());
        } else {
            kernels::uniform(stream, attrs.key, attrs.first, attrs.second, y.view());
        }
    });
    return {{}, std::move(y)};
}

template <bool kNormal>
std::vector<Sample<typename Random<kNormal>::Attrs>> Random<kNormal>::samples() {
    const kernels::RandomKey key = kernels::op_key(7, 3);
    return {{"matrix", {.shape = {3, 5}, .key = key}, {}},
            {"half", {.shape = {7}, .dtype = Dtype::f16, .first = -1.0f, .second = 2.0f, .key = key}, {}},
            {"empty", {.shape = {0}, .key = key}, {}},
            {"negative size", {.shape = {-3}, .key = key}, {}, "negative size"},
            {"integers", {.shape = {3}, .dtype = Dtype::i32, .key = key}, {}, "must be floating"}};
}

template struct Random<true>;
template struct Random<false>;

OpResult<RandInt::Saved, Array> RandInt::forward(Exec& exec, const Attrs& attrs) {
    if (attrs.dtype != Dtype::i32 && attrs.dtype != Dtype::i64) {
        throw DtypeError(fmt::format("randint: dtype must be i32 or i64, got {}", name(attrs.dtype)));
    }
    constexpr std::int64_t range = std::int64_t{1} << 32;
    const bool held = attrs.dtype == Dtype::i64 || (attrs.low >= -range / 2 && attrs.high <= range / 2);
    const auto count = static_cast<std::uint64_t>(attrs.high) - static_cast<std::uint64_t>(attrs.low);
    if (attrs.low >= attrs.high || count > static_cast<std::uint64_t>(range) || !held) {
        throw Error(fmt::format("randint: can't draw {} from [{}, {})", name(attrs.dtype), attrs.low, attrs.high));
    }
    Array y = exec.empty(attrs.shape, attrs.dtype);
    exec.launch([&](auto& stream) { kernels::random_integers(stream, attrs.key, attrs.low, attrs.high, y.view()); });
    return {{}, std::move(y)};
}

std::vector<Sample<RandInt::Attrs>> RandInt::samples() {
    const kernels::RandomKey key = kernels::op_key(9, 4);
    return {{"matrix", {.shape = {3, 5}, .low = -4, .high = 9, .key = key}, {}},
            {"the dtype's range",
             {.shape = {7}, .low = -(1ll << 31), .high = 1ll << 31, .dtype = Dtype::i32, .key = key},
             {}},
            {"empty", {.shape = {0, 2}, .key = key}, {}},
            {"negative size", {.shape = {-3}, .key = key}, {}, "negative size"},
            {"nothing to draw", {.shape = {3}, .low = 2, .high = 2, .key = key}, {}, "from [2, 2)"},
            {"more than the dtype holds",
             {.shape = {3}, .low = 0, .high = 1ll << 32, .dtype = Dtype::i32, .key = key},
             {},
             "can't draw i32"},
            {"more than a word", {.shape = {3}, .low = -1, .high = 1ll << 32, .key = key}, {}, "can't draw i64"},
            {"floating", {.shape = {3}, .dtype = Dtype::f32, .key = key}, {}, "must be i32 or i64"}};
}

OpResult<CausalMask::Saved, Array> CausalMask::forward(Exec& exec, const Attrs& attrs) {
    Array y = exec.empty({attrs.queries, attrs.keys}, Dtype::boolean);
    exec.launch([&](auto& stream) { kernels::causal_mask(stream, y.view()); });
    return {{}, std::move(y)};
}

std::vector<Sample<CausalMask::Attrs>> CausalMask::samples() {
    return {{"square", {4, 4}, {}},
            {"more keys", {2, 5}, {}},
            {"more queries", {5, 2}, {}},
            {"no queries", {0, 3}, {}},
            {"negative size", {-1, 3}, {}, "negative size"}};
}

}  // namespace ops

Tensor arange(Context& context, Scalar start, Scalar stop, Scalar step, std::optional<Dtype> dtype) {
    const bool floating = start.floating() || stop.floating() || step.floating();
    return apply<ops::Arange>(
        context, {start.value(), stop.value(), step.value(), dtype.value_or(floating ? Dtype::f32 : Dtype::i64)});
}

Tensor linspace(Context& context, double start, double stop, std::int64_t steps, Dtype dtype) {
    return apply<ops::Linspace>(context, {start, stop, steps, dtype});
}

Tensor full(Context& context, const Shape& shape, double value, Dtype dtype) {
    check_holds("full", value, dtype);
    return apply<ops::Full>(context, {shape, value, dtype});
}

Tensor zeros(Context& context, const Shape& shape, Dtype dtype) {
    return as_op("zeros", [&] { return full(context, shape, 0.0, dtype); });
}

Tensor ones(Context& context, const Shape& shape, Dtype dtype) {
    return as_op("ones", [&] { return full(context, shape, 1.0, dtype); });
}

Tensor randn(Context& context, const Shape& shape, Dtype dtype, double mean, double deviation) {
    const ops::DrawGuard guard(context);
    return apply<ops::Randn>(
        context, {shape, dtype, static_cast<float>(mean), static_cast<float>(deviation), context.next_random()});
}

Tensor rand(Context& context, const Shape& shape, Dtype dtype, double low, double high) {
    const ops::DrawGuard guard(context);
    return apply<ops::Rand>(context,
                            {shape, dtype, static_cast<float>(low), static_cast<float>(high), context.next_random()});
}

Tensor randint(Context& context, std::int64_t low, std::int64_t high, const Shape& shape, Dtype dtype) {
    const ops::DrawGuard guard(context);
    return apply<ops::RandInt>(context, {shape, low, high, dtype, context.next_random()});
}

Tensor causal_mask(Context& context, std::int64_t queries, std::int64_t keys) {
    return apply<ops::CausalMask>(context, {queries, keys});
}

Tensor full_like(const Tensor& x, double value, std::optional<Dtype> dtype) {
    check_defined("full_like", {{"x", x}});
    const Dtype result = dtype.value_or(x.dtype());
    check_holds("full_like", value, result);
    return as_op("full_like", [&] { return apply<ops::Full>(x.context(), {x.shape(), value, result, x.strides()}); });
}

Tensor zeros_like(const Tensor& x, std::optional<Dtype> dtype) {
    return as_op("zeros_like", [&] { return full_like(x, 0.0, dtype); });
}

Tensor ones_like(const Tensor& x, std::optional<Dtype> dtype) {
    return as_op("ones_like", [&] { return full_like(x, 1.0, dtype); });
}

namespace {

template <class Op>
Tensor random_like(const char* name, const Tensor& x, std::optional<Dtype> dtype) {
    check_defined(name, {{"x", x}});
    const ops::DrawGuard guard(x.context());
    return as_op(name, [&] {
        return apply<Op>(x.context(), {.shape = x.shape(),
                                       .dtype = dtype.value_or(x.dtype()),
                                       .key = x.context().next_random(),
                                       .like = x.strides()});
    });
}

}  // namespace

Tensor randn_like(const Tensor& x, std::optional<Dtype> dtype) {
    return random_like<ops::Randn>("randn_like", x, dtype);
}

Tensor rand_like(const Tensor& x, std::optional<Dtype> dtype) { return random_like<ops::Rand>("rand_like", x, dtype); }

}  // namespace headroom
