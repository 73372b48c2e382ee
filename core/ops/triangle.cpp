#include <headroom/core/ops/triangle.hpp>

#include <algorithm>

#include <headroom/core/ops/checks.hpp>

namespace headroom {

namespace ops {

template <bool kLower>
OpResult<typename TriangleOf<kLower>::Saved, Array> TriangleOf<kLower>::forward(Exec& exec, const Attrs& attrs,
                                                                                const Array& x) {
    check_defined(info.name, {{"x", x}});
    check_form(info.name, {"x", x}, x.rank() >= 2, "[..., m, n]");
    Array y = exec.output(x.shape(), x.dtype);
    exec.launch([&](auto& stream) { kernels::triangle(stream, x.view(), {kLower, attrs.diagonal}, 0.0f, y.view()); });
    return {{}, std::move(y)};
}

template <bool kLower>
void TriangleOf<kLower>::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    const View from = dy.view();
    if (const auto dx = sink.destination(0, dy)) {
        exec.launch([&](auto& stream) {
            kernels::triangle(stream, from, {kLower, attrs.diagonal}, dx.beta, dx.view());
        });
    }
}

template <bool kLower>
std::vector<Sample<typename TriangleOf<kLower>::Attrs>> TriangleOf<kLower>::samples() {
    using In = SampleInput;
    return {{"square", {}, {In::normal({5, 5})}},
            {"wide, above the diagonal", {1}, {In::normal({3, 6})}},
            {"tall, below the diagonal", {-2}, {In::normal({6, 3})}},
            {"batches", {}, {In::normal({2, 3, 4, 4})}},
            {"all of it", {100}, {In::normal({3, 4})}},
            {"integers", {-1}, {In::index({4, 4}, 9)}},
            {"truth values", {}, {In::boolean({4, 4})}},
            {"empty", {}, {In::normal({2, 0, 3})}},
            {"a vector", {}, {In::normal({5})}, "x [5] must be [..., m, n]"},
            {"nothing", {}, {In::none()}, "undefined"}};
}

template struct TriangleOf<true>;
template struct TriangleOf<false>;

}  // namespace ops

namespace {

/// Far enough outside of any matrix, and without overflow where a position is added.
std::int64_t held(std::int64_t diagonal) {
    constexpr std::int64_t far = std::int64_t{1} << 62;
    return std::clamp(diagonal, -far, far);
}

}  // namespace

Tensor tril(Tensor x, std::int64_t diagonal) { return apply<ops::Tril>({held(diagonal)}, std::move(x)); }

Tensor triu(Tensor x, std::int64_t diagonal) { return apply<ops::Triu>({held(diagonal)}, std::move(x)); }

}  // namespace headroom
