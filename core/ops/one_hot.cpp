#include <headroom/core/ops/one_hot.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/gather/gather.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

OpResult<OneHot::Saved, Array> OneHot::forward(Exec& exec, const Attrs& attrs, const Array& index) {
    constexpr std::int64_t exact = std::int64_t{1} << 24;  // numbers of classes are compared in f32
    check_index("one_hot", {"index", index});
    check_form("one_hot", {"index", index}, index.rank() < kMaxRank, "reshaped to fewer axes");
    if (attrs.classes < 1 || (is_floating(attrs.dtype) && attrs.classes > exact)) {
        throw ShapeError(fmt::format("one_hot: classes must be between 1 and {} for {}, got {}",
                                     is_floating(attrs.dtype) ? exact : std::numeric_limits<std::int64_t>::max(),
                                     name(attrs.dtype), attrs.classes));
    }
    Shape shape = index.shape();
    shape.push_back(attrs.classes);
    Array y = exec.empty(shape, attrs.dtype);
    const Array classes = exec.empty({attrs.classes}, Dtype::i64, Category::workspace);
    View column = index.view();
    column.shape.push_back(1);
    column.strides.push_back(0);
    exec.launch([&](auto& stream) {
        kernels::check_index(stream, "one_hot: index", index.view(), attrs.classes);
        kernels::arange(stream, 0.0, 1.0, classes.view());
        kernels::map(stream, kernels::Equal{}, column, classes.view(), y.view());
    });
    return {{}, std::move(y)};
}

std::vector<Sample<OneHot::Attrs>> OneHot::samples() {
    using In = SampleInput;
    return {{"labels", {5}, {In::index({7}, 5)}},
            {"floating", {4, Dtype::f16}, {In::index({2, 3}, 4)}},
            {"one", {3, Dtype::boolean}, {In::index({}, 3)}},
            {"no labels", {3}, {In::index({0}, 3)}},
            {"index outside", {3}, {In::index({40}, 9)}, "one_hot: index"},
            {"no classes", {0}, {In::index({3}, 4)}, "between 1 and"},
            {"more classes than f32 tells apart", {(1 << 24) + 1, Dtype::f32}, {In::index({3}, 4)}, "16777216 for f32"},
            {"numbers", {3}, {In::normal({3})}, "must be i32 or i64"},
            {"nothing", {3}, {In::none()}, "undefined"}};
}

}  // namespace ops

Tensor one_hot(Tensor index, std::int64_t classes, Dtype dtype) {
    return apply<ops::OneHot>({classes, dtype}, std::move(index));
}

}  // namespace headroom
