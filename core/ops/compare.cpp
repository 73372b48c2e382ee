#include <headroom/core/ops/compare.hpp>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>

namespace headroom {

namespace ops {

template <class F>
OpResult<typename Comparison<F>::Saved, Array> Comparison<F>::forward(Exec& exec, const Attrs& f, const Array& a,
                                                                      const Array& b) {
    check_defined(F::name, {{"the left side", a}, {"the right side", b}});
    Array y = exec.fresh_output(broadcast_shapes(F::name, a.shape(), b.shape()), Dtype::boolean);
    exec.launch([&](auto& stream) { kernels::map(stream, f, a.view(), b.view(), y.view()); });
    return {{}, std::move(y)};
}

template <class F>
OpResult<typename Predicate<F>::Saved, Array> Predicate<F>::forward(Exec& exec, const Attrs& f, const Array& x) {
    check_defined(F::name, {{"x", x}});
    Array y = exec.fresh_output(x.shape(), Dtype::boolean);
    exec.launch([&](auto& stream) { kernels::map(stream, f, x.view(), y.view()); });
    return {{}, std::move(y)};
}

namespace {

std::vector<Sample<NoAttrs>> comparison_samples() {
    using In = SampleInput;
    return {{"numbers", {}, {In::normal({3, 5}), In::normal({3, 5})}},
            {"stretched", {}, {In::normal({2, 1}), In::normal({4})}},
            {"integers, some equal", {}, {In::index({4, 7}, 3), In::index({7}, 3)}},
            {"an integer and a number", {}, {In::index({6}, 3), In::normal({})}},
            {"truth values", {}, {In::boolean({9}), In::boolean({9})}},
            {"empty", {}, {In::normal({0, 3}), In::normal({3})}},
            {"shapes that do not fit", {}, {In::normal({2, 3}), In::normal({2, 4})}, "do not broadcast"},
            {"nothing on the left", {}, {In::none(), In::normal({3})}, "undefined"}};
}

std::vector<Sample<NoAttrs>> predicate_samples() {
    using In = SampleInput;
    return {{"truth values", {}, {In::boolean({3, 5})}},
            {"integers", {}, {In::index({7}, 2)}},
            {"numbers", {}, {In::normal({7})}},
            {"empty", {}, {In::boolean({0})}},
            {"nothing", {}, {In::none()}, "undefined"}};
}

}  // namespace

template <class F>
std::vector<Sample<F>> Comparison<F>::samples() {
    return with_attrs(F{}, comparison_samples());
}

template <class F>
std::vector<Sample<F>> Predicate<F>::samples() {
    return with_attrs(F{}, predicate_samples());
}

void add_comparisons(std::vector<OpEntry>& all) {
    add_entries<Comparison>(all, kernels::Comparisons{});
    add_entries<Predicate>(all, kernels::UnaryPredicates{});
}

}  // namespace ops

namespace {

template <class F>
Tensor compare(Tensor a, Tensor b) {
    return apply<ops::Comparison<F>>({}, std::move(a), std::move(b));
}

/// The number in the dtype of a; integers are compared with it in f64.
Tensor number(const Tensor& a, double value) {
    if (!a.defined()) return {};
    return full(a.context(), {}, value, is_floating(a.dtype()) ? a.dtype() : Dtype::f64);
}

template <class F>
Tensor compare(Tensor a, double b) {
    Tensor right = number(a, b);
    return compare<F>(std::move(a), std::move(right));
}

}  // namespace

Tensor eq(Tensor a, Tensor b) { return compare<kernels::Equal>(std::move(a), std::move(b)); }
Tensor ne(Tensor a, Tensor b) { return compare<kernels::NotEqual>(std::move(a), std::move(b)); }
Tensor lt(Tensor a, Tensor b) { return compare<kernels::Less>(std::move(a), std::move(b)); }
Tensor le(Tensor a, Tensor b) { return compare<kernels::LessEqual>(std::move(a), std::move(b)); }
Tensor gt(Tensor a, Tensor b) { return compare<kernels::Greater>(std::move(a), std::move(b)); }
Tensor ge(Tensor a, Tensor b) { return compare<kernels::GreaterEqual>(std::move(a), std::move(b)); }

Tensor eq(Tensor a, double b) { return compare<kernels::Equal>(std::move(a), b); }
Tensor ne(Tensor a, double b) { return compare<kernels::NotEqual>(std::move(a), b); }
Tensor lt(Tensor a, double b) { return compare<kernels::Less>(std::move(a), b); }
Tensor le(Tensor a, double b) { return compare<kernels::LessEqual>(std::move(a), b); }
Tensor gt(Tensor a, double b) { return compare<kernels::Greater>(std::move(a), b); }
Tensor ge(Tensor a, double b) { return compare<kernels::GreaterEqual>(std::move(a), b); }

Tensor operator==(Tensor a, Tensor b) { return eq(std::move(a), std::move(b)); }
Tensor operator!=(Tensor a, Tensor b) { return ne(std::move(a), std::move(b)); }
Tensor operator<(Tensor a, Tensor b) { return lt(std::move(a), std::move(b)); }
Tensor operator<=(Tensor a, Tensor b) { return le(std::move(a), std::move(b)); }
Tensor operator>(Tensor a, Tensor b) { return gt(std::move(a), std::move(b)); }
Tensor operator>=(Tensor a, Tensor b) { return ge(std::move(a), std::move(b)); }

Tensor operator==(Tensor a, double b) { return eq(std::move(a), b); }
Tensor operator!=(Tensor a, double b) { return ne(std::move(a), b); }
Tensor operator<(Tensor a, double b) { return lt(std::move(a), b); }
Tensor operator<=(Tensor a, double b) { return le(std::move(a), b); }
Tensor operator>(Tensor a, double b) { return gt(std::move(a), b); }
Tensor operator>=(Tensor a, double b) { return ge(std::move(a), b); }

Tensor operator==(double a, Tensor b) { return eq(std::move(b), a); }
Tensor operator!=(double a, Tensor b) { return ne(std::move(b), a); }
Tensor operator<(double a, Tensor b) { return gt(std::move(b), a); }
Tensor operator<=(double a, Tensor b) { return ge(std::move(b), a); }
Tensor operator>(double a, Tensor b) { return lt(std::move(b), a); }
Tensor operator>=(double a, Tensor b) { return le(std::move(b), a); }

Tensor logical_and(Tensor a, Tensor b) { return compare<kernels::LogicalAnd>(std::move(a), std::move(b)); }
Tensor logical_or(Tensor a, Tensor b) { return compare<kernels::LogicalOr>(std::move(a), std::move(b)); }
Tensor logical_not(Tensor x) { return apply<ops::Predicate<kernels::LogicalNot>>({}, std::move(x)); }
Tensor isfinite(Tensor x) { return apply<ops::Predicate<kernels::IsFinite>>({}, std::move(x)); }
Tensor isnan(Tensor x) { return apply<ops::Predicate<kernels::IsNan>>({}, std::move(x)); }

}  // namespace headroom
