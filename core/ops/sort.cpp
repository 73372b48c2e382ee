#include <headroom/core/ops/sort.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/kernels/sort/sort.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

OpResult<Argsort::Saved, Array> Argsort::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_defined("argsort", {{"x", x}});
    const int axis = check_axis("argsort", x.shape(), attrs.axis);
    Array y = exec.empty(x.shape(), Dtype::i64);
    exec.run<kernels::ArgsortPlan>(x.view(), axis, attrs.descending, y.view());
    return {{}, std::move(y)};
}

std::vector<Sample<Argsort::Attrs>> Argsort::samples() {
    using In = SampleInput;
    return {{"last axis", {}, {In::distinct({3, 5})}},
            {"first axis, descending", {0, true}, {In::distinct({7, 3})}},
            {"a middle axis", {1}, {In::distinct({2, 5, 4})}},
            {"integers, some equal", {0, true}, {In::index({9}, 4)}},
            {"truth values", {}, {In::boolean({2, 7})}},
            {"one", {}, {In::distinct({1})}},
            {"empty", {1}, {In::distinct({0, 3})}},
            {"of nothing", {}, {In::distinct({3, 0})}},
            {"axis outside", {2}, {In::distinct({2, 3})}, "axis 2 is outside"},
            {"no axis", {}, {In::distinct({})}, "axis -1 is outside"},
            {"nothing", {}, {In::none()}, "undefined"}};
}

OpResult<TopK::Saved, Array> TopK::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_defined("topk", {{"x", x}});
    const int axis = check_axis("topk", x.shape(), attrs.axis);
    Shape shape = x.shape();
    if (attrs.k < 0 || attrs.k > shape[axis]) {
        throw ShapeError(fmt::format("topk: k must be from 0 to {}, the size of axis {} of {}, got {}", shape[axis],
                                     attrs.axis, x.shape().to_string(), attrs.k));
    }
    shape[axis] = attrs.k;
    Array y = exec.empty(shape, Dtype::i64);
    exec.run<kernels::TopPlan>(x.view(), axis, attrs.largest, y.view());
    return {{}, std::move(y)};
}

std::vector<Sample<TopK::Attrs>> TopK::samples() {
    using In = SampleInput;
    return {{"two of five", {2}, {In::distinct({3, 5})}},
            {"the smallest, first axis", {3, 0, false}, {In::distinct({7, 3})}},
            {"a middle axis", {1, 1}, {In::distinct({2, 5, 4})}},
            {"all", {6}, {In::distinct({6})}},
            {"integers, some equal", {4}, {In::index({9}, 4)}},
            {"none", {0}, {In::distinct({2, 3})}},
            {"empty", {2}, {In::distinct({0, 3})}},
            {"too many", {4}, {In::distinct({2, 3})}, "k must be from 0 to 3, the size of axis -1 of [2, 3], got 4"},
            {"less than none", {-1}, {In::distinct({2, 3})}, "got -1"},
            {"axis outside", {1, 2}, {In::distinct({2, 3})}, "axis 2 is outside"},
            {"nothing", {}, {In::none()}, "undefined"}};
}

}  // namespace ops

Tensor argsort(Tensor x, int axis, bool descending) { return apply<ops::Argsort>({axis, descending}, std::move(x)); }

Sorted sort(Tensor x, int axis, bool descending) {
    return as_op("sort", [&]() -> Sorted {
        Tensor indices = argsort(x, axis, descending);
        return {gather(std::move(x), axis, indices), indices};
    });
}

Sorted topk(Tensor x, std::int64_t k, int axis, bool largest) {
    return as_op("topk", [&]() -> Sorted {
        Tensor indices = apply<ops::TopK>({k, axis, largest}, x);
        return {gather(std::move(x), axis, indices), indices};
    });
}

}  // namespace headroom
