#include <headroom/core/ops/where.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

OpResult<Where::Saved, Array> Where::forward(Exec& exec, const Attrs&, const Array& condition, const Array& a,
                                             const Array& b) {
    check_defined("where", {{"the condition", condition}, {"the first choice", a}, {"the second choice", b}});
    if (is_floating(condition.dtype)) {
        throw DtypeError(fmt::format("where: the condition must be bool, got {}; use a comparison such as ne()",
                                     name(condition.dtype)));
    }
    const Shape chosen = broadcast_shapes("where", a.shape(), b.shape());
    Array y = exec.output(broadcast_shapes("where", condition.shape(), chosen), promoted(a.dtype, b.dtype));
    exec.launch([&](auto& stream) { kernels::where(stream, condition.view(), a.view(), b.view(), y.view()); });
    return {{condition}, std::move(y)};
}

namespace {

void choose_gradient(Exec& exec, int i, const Array& condition, const Array& dy, GradSink& sink) {
    const auto target = sink.destination(i);
    if (!target) return;
    const bool whole = target.array.shape() == dy.shape();
    const Array spread =
        whole ? Array{} : exec.empty_like(dy, promoted(dy.dtype, target.array.dtype), Category::workspace);
    const View to = whole ? target.view() : spread.view();
    exec.launch([&](auto& stream) {
        kernels::where_backward(stream, condition.view(), i == 1, dy.view(), whole ? target.beta : 0.0f, to);
    });
    if (!whole) exec.run<kernels::SumPlan>(to, 1.0, target.view(), target.beta);
}

}  // namespace

void Where::backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink) {
    choose_gradient(exec, 1, saved.condition, dy, sink);
    choose_gradient(exec, 2, saved.condition, dy, sink);
}

std::vector<Sample<Where::Attrs>> Where::samples() {
    using In = SampleInput;
    return {{"equal shapes", {}, {In::boolean({3, 5}), In::normal({3, 5}), In::normal({3, 5})}},
            {"a mask for many", {}, {In::boolean({4, 4}), In::normal({2, 4, 4}), In::normal({})}},
            {"choices stretched", {}, {In::boolean({3, 4}), In::normal({4}), In::normal({3, 1})}},
            {"an integer condition", {}, {In::index({7}, 2), In::normal({7}), In::normal({7})}},
            {"integers", {}, {In::boolean({7}), In::index({7}, 9), In::index({7}, 9)}},
            {"empty", {}, {In::boolean({0}), In::normal({0}), In::normal({1})}},
            {"a floating condition", {}, {In::normal({3}), In::normal({3}), In::normal({3})}, "must be bool"},
            {"shapes that do not fit", {}, {In::boolean({3}), In::normal({4}), In::normal({4})}, "do not broadcast"}};
}

}  // namespace ops

Tensor where(Tensor condition, Tensor a, Tensor b) {
    return apply<ops::Where>({}, std::move(condition), std::move(a), std::move(b));
}

Tensor masked_fill(Tensor x, Tensor mask, double value) {
    check_defined("masked_fill", {{"x", x}, {"the mask", mask}});
    if (is_floating(mask.dtype())) {
        throw DtypeError(fmt::format("masked_fill: the mask must be bool, got {}; use a comparison such as ne()",
                                     name(mask.dtype())));
    }
    if (!is_floating(x.dtype()) && std::trunc(value) != value) {
        throw DtypeError(
            fmt::format("masked_fill: {} in dtype {} needs a whole number; use cast()", value, name(x.dtype())));
    }
    check_holds("masked_fill", value, x.dtype());
    return as_op("masked_fill", [&] {
        Tensor filling = full(x.context(), {}, value, x.dtype());
        return where(std::move(mask), std::move(filling), std::move(x));
    });
}

}  // namespace headroom
