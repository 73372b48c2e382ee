#include <headroom/core/ops/binary.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

template <class F>
OpResult<typename Binary<F>::Saved, Array> Binary<F>::forward(Exec& exec, const Attrs& f, const Array& a,
                                                              const Array& b) {
    check_defined(F::name, {{"the left side", a}, {"the right side", b}});
    const Dtype dtype = promoted(a.dtype, b.dtype);
    if (!kernels::takes_integers<F>()) check_floating(F::name, "one side", dtype);
    if (std::is_same_v<F, kernels::Sub> && dtype == Dtype::boolean) {
        throw DtypeError("sub: bool tensors can't be subtracted; use cast(), or ne() to find where they differ");
    }
    const bool keeps_both = F::saves == kernels::Saves::input && exec.saved_wanted();
    const Shape shape = broadcast_shapes(F::name, a.shape(), b.shape());
    Array y = keeps_both ? exec.fresh_output(shape, dtype) : exec.output(shape, dtype);
    exec.launch([&](auto& stream) { kernels::map(stream, f, a.view(), b.view(), y.view()); });
    if constexpr (F::saves == kernels::Saves::nothing) {
        return {{}, std::move(y)};
    } else {
        if (!keeps_both) return {{}, std::move(y)};
        return {{a, b}, std::move(y)};
    }
}

namespace {

/// dy times a constant derivative, summed over what was stretched; `write(stream, view, beta)` multiplies by it.
template <class Write>
void hand_on(Exec& exec, int i, double derivative, Array& dy, GradSink& sink, Write&& write) {
    if (derivative == 1.0 && sink.wanted(i) && sink.shape(i) == dy.shape()) {
        sink.give(i, dy);
        return;
    }
    const auto target = sink.destination(i);
    if (!target) return;
    if (target.array.shape() != dy.shape())
        return exec.run<kernels::SumPlan>(dy.view(), derivative, target.view(), target.beta);
    exec.launch([&](auto& stream) { write(stream, target.view(), target.beta); });
}

/// Calls `write(stream, view, beta)` with where to put input i's gradient before it is summed over what was stretched;
/// that may be the storage of `spent`, an array of dy's shape that is read for the last time.
template <class Write>
void write_gradient(Exec& exec, int i, const Array& dy, Array* spent, GradSink& sink, Write&& write) {
    if (!sink.wanted(i)) return;
    if (sink.shape(i) == dy.shape()) {
        const auto target = spent ? sink.destination(i, *spent) : sink.destination(i);
        exec.launch([&](auto& stream) { write(stream, target.view(), target.beta); });
        return;
    }
    const auto target = sink.destination(i);
    const Array whole = exec.empty_like(dy, promoted(dy.dtype, target.array.dtype), Category::workspace);
    exec.launch([&](auto& stream) { write(stream, whole.view(), 0.0f); });
    exec.run<kernels::SumPlan>(whole.view(), 1.0, target.view(), target.beta);
}

}  // namespace

template <class F>
void Binary<F>::backward(Exec& exec, const Attrs& f, Saved& saved, Array dy, GradSink sink) {
    if constexpr (F::saves == kernels::Saves::nothing) {
        // What is computed from nothing is a constant.
        const View above = dy.view();
        hand_on(exec, 0, f.derivative_a(0.0, 0.0), dy, sink, [&](auto& stream, const View& da, float beta) {
            kernels::map_backward_a(stream, f, above, above, above, beta, da);
        });
        hand_on(exec, 1, f.derivative_b(0.0, 0.0), dy, sink, [&](auto& stream, const View& db, float beta) {
            kernels::map_backward_b(stream, f, above, above, above, beta, db);
        });
    } else {
        const View a = saved.a.view();
        const View b = saved.b.view();
        Array* spent = sink.wanted(1) ? nullptr : &dy;
        if (std::is_same_v<F, kernels::Mul> && sink.wanted(1) && saved.b.shape() == dy.shape()) spent = &saved.b;
        write_gradient(exec, 0, dy, spent, sink, [&](auto& stream, const View& da, float beta) {
            kernels::map_backward_a(stream, f, a, b, dy.view(), beta, da);
        });
        write_gradient(exec, 1, dy, &dy, sink, [&](auto& stream, const View& db, float beta) {
            kernels::map_backward_b(stream, f, a, b, dy.view(), beta, db);
        });
    }
}

namespace {

std::vector<Sample<NoAttrs>> samples_of_two(const kernels::Domain& domain, bool integers) {
    const auto input = [&](Shape shape) { return SampleInput::in(domain, shape); };
    std::vector<Sample<NoAttrs>> all{
        {"equal shapes", {}, {input({3, 5}), input({3, 5})}},
        {"right side stretched", {}, {input({2, 3, 4}), input({4})}},
        {"left side stretched", {}, {input({3, 1}), input({2, 3, 4})}},
        {"both stretched", {}, {input({3, 1}), input({1, 4})}},
        {"single elements", {}, {input({}), input({1})}},
        {"empty", {}, {input({0, 3}), input({3})}},
        {"shapes that do not fit", {}, {input({2, 3}), input({2, 4})}, "do not broadcast"},
        {"nothing on the right", {}, {input({2, 3}), SampleInput::none()}, "undefined"},
    };
    if (!integers) {
        all.push_back({"integers", {}, {SampleInput::index({3}, 5), SampleInput::index({3}, 5)}, "must be floating"});
    }
    return all;
}

}  // namespace

template <class F>
std::vector<Sample<F>> Binary<F>::samples() {
    return with_attrs(kernels::sample_of<F>(), samples_of_two(kernels::domain_of<F>(), kernels::takes_integers<F>()));
}

void add_binary(std::vector<OpEntry>& all) { add_entries<Binary>(all, kernels::BinaryFunctions{}); }

}  // namespace ops

namespace {

template <class F>
Tensor binary(const F& f, Tensor a, Tensor b) {
    return apply<ops::Binary<F>>(f, std::move(a), std::move(b));
}

}  // namespace

Tensor add(Tensor a, Tensor b) { return binary(kernels::Add{}, std::move(a), std::move(b)); }
Tensor sub(Tensor a, Tensor b) { return binary(kernels::Sub{}, std::move(a), std::move(b)); }
Tensor mul(Tensor a, Tensor b) { return binary(kernels::Mul{}, std::move(a), std::move(b)); }

Tensor div(Tensor a, Tensor b) {
    check_defined("div", {{"the left side", a}, {"the right side", b}});
    if (!is_floating(promoted(a.dtype(), b.dtype()))) a = cast(std::move(a), Dtype::f32);
    return binary(kernels::Div{}, std::move(a), std::move(b));
}

Tensor pow(Tensor a, Tensor b) { return binary(kernels::Pow{}, std::move(a), std::move(b)); }
Tensor maximum(Tensor a, Tensor b) { return binary(kernels::Maximum{}, std::move(a), std::move(b)); }
Tensor minimum(Tensor a, Tensor b) { return binary(kernels::Minimum{}, std::move(a), std::move(b)); }
Tensor lerp(Tensor a, Tensor b, double weight) { return binary(kernels::Lerp{weight}, std::move(a), std::move(b)); }

Tensor glu(Tensor x, int axis) {
    check_floating("glu", {{"x", x}});
    axis = check_axis("glu", x.shape(), axis);
    const std::int64_t half = x.size(axis) / 2;
    if (x.size(axis) != 2 * half) {
        throw ShapeError(fmt::format("glu: axis {} of {} must have an even size", axis, x.shape().to_string()));
    }
    return binary(kernels::Glu{}, x.slice(axis, 0, half), x.slice(axis, half, 2 * half));
}

Tensor swiglu(Tensor gate, Tensor x) { return binary(kernels::SwiGlu{}, std::move(gate), std::move(x)); }

Tensor operator+(Tensor a, Tensor b) { return add(std::move(a), std::move(b)); }
Tensor operator-(Tensor a, Tensor b) { return sub(std::move(a), std::move(b)); }
Tensor operator*(Tensor a, Tensor b) { return mul(std::move(a), std::move(b)); }
Tensor operator/(Tensor a, Tensor b) { return div(std::move(a), std::move(b)); }

}  // namespace headroom
