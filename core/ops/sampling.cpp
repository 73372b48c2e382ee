#include <headroom/core/ops/sampling.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/draw_guard.hpp>
#include <headroom/kernels/random/multinomial.hpp>
#include <headroom/kernels/random/random.hpp>
#include <headroom/kernels/scan/scan.hpp>
#include <headroom/kernels/sort/sort.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

/// The order of random keys of 64 bits, two of the generator's words each.
OpResult<Randperm::Saved, Array> Randperm::forward(Exec& exec, const Attrs& attrs) {
    if (attrs.n < 0) throw ShapeError(fmt::format("randperm: n must not be negative, got {}", attrs.n));
    constexpr std::int64_t half = std::int64_t{1} << 31;
    Array y = exec.empty({attrs.n}, Dtype::i64);
    const Array keys = exec.empty({attrs.n}, Dtype::i64, Category::workspace);
    exec.launch([&](auto& stream) {
        const View words = kernels::contiguous_view(keys.view().data, Dtype::i32, {2 * attrs.n});
        kernels::random_integers(stream, attrs.key, -half, half, words);
    });
    exec.run<kernels::ArgsortPlan>(keys.view(), 0, false, y.view());
    return {{}, std::move(y)};
}

std::vector<Sample<Randperm::Attrs>> Randperm::samples() {
    const kernels::RandomKey key = kernels::op_key(7, 3);
    return {{"a few", {9, key}, {}},
            {"more", {300, key}, {}},
            {"none", {0, key}, {}},
            {"less than none", {-1, key}, {}, "must not be negative"}};
}

OpResult<Multinomial::Saved, Array> Multinomial::forward(Exec& exec, const Attrs& attrs, const Array& weights) {
    check_floating("multinomial", {{"weights", weights}});
    check_form("multinomial", {"weights", weights}, weights.rank() > 0, "[..., n]");
    Shape shape = weights.shape();
    const int axis = shape.rank() - 1;
    if (attrs.draws < 1 || shape[axis] == 0 || (!attrs.replacement && attrs.draws > shape[axis])) {
        throw ShapeError(fmt::format("multinomial: can't draw {} from {} {} replacement", attrs.draws,
                                     shape.to_string(), attrs.replacement ? "with" : "without"));
    }
    shape[axis] = attrs.draws;
    Array y = exec.empty(shape, Dtype::i64);
    if (attrs.replacement && attrs.draws > 1) {
        const Array sums = exec.empty(weights.shape(), Dtype::f64, Category::workspace);
        exec.run<kernels::CumsumPlan>(weights.view(), axis, false, sums.view(), 0.0f);
        exec.launch([&](auto& stream) { kernels::pick(stream, attrs.key, weights.view(), sums.view(), y.view()); });
    } else {
        const Array times = exec.empty(weights.shape(), Dtype::f32, Category::workspace);
        exec.launch([&](auto& stream) { kernels::race(stream, attrs.key, weights.view(), times.view()); });
        exec.run<kernels::TopPlan>(times.view(), axis, false, y.view());
    }
    return {{}, std::move(y)};
}

std::vector<Sample<Multinomial::Attrs>> Multinomial::samples() {
    using In = SampleInput;
    const kernels::RandomKey key = kernels::op_key(7, 5);
    return {{"without replacement", {3, false, key}, {In::positive({3, 5})}},
            {"with replacement", {9, true, key}, {In::positive({3, 5})}},
            {"none to draw", {0, false, key}, {In::positive({3, 5})}, "can't draw 0 from [3, 5]"},
            {"too many", {6, false, key}, {In::positive({3, 5})}, "without replacement"},
            {"from nothing", {1, true, key}, {In::positive({3, 0})}, "with replacement"},
            {"no axis", {1, true, key}, {In::positive({})}, "weights [] must be [..., n]"},
            {"integers", {1, true, key}, {In::index({3}, 5)}, "weights must be floating"},
            {"nothing", {1, true, key}, {In::none()}, "undefined"}};
}

}  // namespace ops

Tensor randperm(Context& context, std::int64_t n) {
    const ops::DrawGuard guard(context);
    return apply<ops::Randperm>(context, {n, context.next_random()});
}

Tensor multinomial(Tensor weights, std::int64_t draws, bool replacement) {
    check_defined("multinomial", {{"weights", weights}});
    const ops::DrawGuard guard(weights.context());
    const kernels::RandomKey key = weights.context().next_random();
    return apply<ops::Multinomial>({draws, replacement, key}, std::move(weights));
}

}  // namespace headroom
