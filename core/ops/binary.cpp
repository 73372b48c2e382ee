#include <headroom/core/ops/binary.hpp>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/reduce/reduce.hpp>

namespace headroom {

namespace ops {

template <class F>
Result<typename Binary<F>::Saved, Array> Binary<F>::forward(Exec& exec, const Attrs& f, const Array& a,
                                                            const Array& b) {
    check_defined(F::name, {{"the left side", a}, {"the right side", b}});
    const Dtype dtype = promoted(a.dtype, b.dtype);
    if (!kernels::takes_integers<F>()) check_floating(F::name, "one side", dtype);
    Array y = exec.output(broadcast_shapes(F::name, a.shape(), b.shape()), dtype);
    exec.launch([&](auto& stream) { kernels::map(stream, f, a.view(), b.view(), y.view()); });
    if constexpr (F::saves == kernels::Saves::nothing) {
        return {{}, std::move(y)};
    } else {
        return {{a, b}, std::move(y)};
    }
}

namespace {

/// A sum's or difference's gradient is dy or -dy, summed over what was stretched.
template <class F>
void hand_on(Exec& exec, int i, Array& dy, GradSink& sink) {
    const bool negative = std::is_same_v<F, kernels::Sub> && i == 1;
    if (!negative && sink.wanted(i) && sink.shape(i) == dy.shape()) {
        sink.give(i, dy);
        return;
    }
    const auto target = sink.destination(i);
    if (!target) return;
    if (target.array.shape() != dy.shape())
        return exec.run<kernels::SumPlan>(dy.view(), negative ? -1.0 : 1.0, target.view(), target.beta);
    exec.launch([&](auto& stream) { kernels::accumulate(stream, dy.view(), target.view(), -1.0f, target.beta); });
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
    const Array whole = exec.empty(dy.shape(), target.array.dtype, Category::workspace);
    exec.launch([&](auto& stream) { write(stream, whole.view(), 0.0f); });
    exec.run<kernels::SumPlan>(whole.view(), 1.0, target.view(), target.beta);
}

}  // namespace

template <class F>
void Binary<F>::backward(Exec& exec, const Attrs& f, Saved& saved, Array dy, GradSink sink) {
    if constexpr (F::saves == kernels::Saves::nothing) {
        hand_on<F>(exec, 0, dy, sink);
        hand_on<F>(exec, 1, dy, sink);
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

template <class F>
std::vector<Sample<F>> Binary<F>::samples() {
    constexpr bool positive = std::is_same_v<F, kernels::Div> || std::is_same_v<F, kernels::Pow>;
    constexpr bool kinked = std::is_same_v<F, kernels::Maximum> || std::is_same_v<F, kernels::Minimum>;
    const auto input = [](Shape shape) {
        return positive ? SampleInput::positive(shape)
               : kinked ? SampleInput::distinct(shape)
                        : SampleInput::normal(shape);
    };
    std::vector<Sample<F>> all{
        {"equal shapes", {}, {input({3, 5}), input({3, 5})}},
        {"right side stretched", {}, {input({2, 3, 4}), input({4})}},
        {"left side stretched", {}, {input({3, 1}), input({2, 3, 4})}},
        {"both stretched", {}, {input({3, 1}), input({1, 4})}},
        {"single elements", {}, {input({}), input({1})}},
        {"empty", {}, {input({0, 3}), input({3})}},
        {"shapes that do not fit", {}, {input({2, 3}), input({2, 4})}, "do not broadcast"},
        {"nothing on the right", {}, {input({2, 3}), SampleInput::none()}, "undefined"},
    };
    if (!kernels::takes_integers<F>()) {
        all.push_back({"integers", {}, {SampleInput::index({3}, 5), SampleInput::index({3}, 5)}, "must be floating"});
    }
    return all;
}

template struct Binary<kernels::Add>;
template struct Binary<kernels::Sub>;
template struct Binary<kernels::Mul>;
template struct Binary<kernels::Div>;
template struct Binary<kernels::Pow>;
template struct Binary<kernels::Maximum>;
template struct Binary<kernels::Minimum>;

}  // namespace ops

namespace {

template <class F>
Tensor binary(const F& f, Tensor a, Tensor b) {
    return apply<ops::Binary<F>>(f, std::move(a), std::move(b));
}

}  // namespace

Tensor add(Tensor a, Tensor b) {
    // In place means in a's storage. A sum has no sides: a value that only this call holds goes first.
    const bool swap = a.defined() && b.defined() && a.value()->users > 1 && b.value()->users == 1 &&
                      a.dtype() == b.dtype() && a.shape() == b.shape();
    if (swap) return binary(kernels::Add{}, std::move(b), std::move(a));
    return binary(kernels::Add{}, std::move(a), std::move(b));
}

Tensor sub(Tensor a, Tensor b) { return binary(kernels::Sub{}, std::move(a), std::move(b)); }
Tensor mul(Tensor a, Tensor b) { return binary(kernels::Mul{}, std::move(a), std::move(b)); }
Tensor div(Tensor a, Tensor b) { return binary(kernels::Div{}, std::move(a), std::move(b)); }
Tensor pow(Tensor a, Tensor b) { return binary(kernels::Pow{}, std::move(a), std::move(b)); }
Tensor maximum(Tensor a, Tensor b) { return binary(kernels::Maximum{}, std::move(a), std::move(b)); }
Tensor minimum(Tensor a, Tensor b) { return binary(kernels::Minimum{}, std::move(a), std::move(b)); }

Tensor operator+(Tensor a, Tensor b) { return add(std::move(a), std::move(b)); }
Tensor operator-(Tensor a, Tensor b) { return sub(std::move(a), std::move(b)); }
Tensor operator*(Tensor a, Tensor b) { return mul(std::move(a), std::move(b)); }
Tensor operator/(Tensor a, Tensor b) { return div(std::move(a), std::move(b)); }

}  // namespace headroom
