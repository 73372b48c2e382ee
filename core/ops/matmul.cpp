#include <headroom/core/ops/matmul.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/run_matmul.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

/// The axes before the last two.
Shape batch_of(const Shape& shape) { return Shape(std::span<const std::int64_t>(shape.begin(), shape.end() - 2)); }

Shape shape_of_product(const Array& a, const Array& b) {
    check_one_dtype("matmul", {{"a", a}, {"b", b}});
    const auto refuse = [&](const char* rule) -> ShapeError {
        return ShapeError(
            fmt::format("matmul: {} x {} do not fit; {}", a.shape().to_string(), b.shape().to_string(), rule));
    };
    if (a.rank() < 2 || b.rank() < 2 || a.size(-1) != b.size(-2))
        throw refuse("the shapes must be [..., m, k] x [..., k, n]");
    Shape shape;
    try {
        shape = broadcast_shapes("matmul", batch_of(a.shape()), batch_of(b.shape()));
    } catch (const ShapeError&) {
        throw refuse("the axes before the last two must broadcast");
    }
    shape.push_back(a.size(-2));
    shape.push_back(b.size(-1));
    return shape;
}

}  // namespace

OpResult<Matmul::Saved, Array> Matmul::forward(Exec& exec, const Attrs&, const Array& a, const Array& b) {
    Array c = exec.empty(shape_of_product(a, b), a.dtype);
    run_matmul(exec, {.a = a.view(), .b = b.view(), .c = c.view()});
    return {{a, b}, std::move(c)};
}

void Matmul::backward(Exec& exec, const Attrs&, Saved& saved, Array dc, GradSink sink) {
    if (const auto da = sink.destination(0)) {
        run_matmul_to(exec, dc.view(), kernels::transposed(saved.b.view()), da.view(), da.beta);
    }
    if (const auto db = sink.destination(1, saved.b)) {  // b has been read
        run_matmul_to(exec, kernels::transposed(saved.a.view()), dc.view(), db.view(), db.beta);
    }
}

Operations Matmul::operations(const Attrs&, std::span<const Shape> inputs, std::span<const Shape> made) {
    return Operations::of_product(2 * elements_of(made[0]) * static_cast<double>(inputs[0][inputs[0].rank() - 1]));
}

std::vector<Sample<Matmul::Attrs>> Matmul::samples() {
    using I = SampleInput;
    return {
        {"matrices", {}, {I::normal({3, 4}), I::normal({4, 5})}},
        {"batches", {}, {I::normal({2, 3, 2}), I::normal({2, 2, 4})}},
        {"one matrix on the right", {}, {I::normal({2, 3, 2}), I::normal({2, 4})}},
        {"one matrix on the left", {}, {I::normal({3, 2}), I::normal({2, 2, 4})}},
        {"both broadcast", {}, {I::normal({2, 1, 2, 3}), I::normal({3, 3, 2})}},
        {"no rows", {}, {I::normal({0, 4}), I::normal({4, 5})}},
        {"no inner axis", {}, {I::normal({3, 0}), I::normal({0, 5})}},
        {"no batches", {}, {I::normal({0, 2, 3}), I::normal({3, 2})}},
        {"sizes", {}, {I::normal({3, 4}), I::normal({3, 4})}, "matmul: [3, 4] x [3, 4] do not fit"},
        {"batch sizes",
         {},
         {I::normal({2, 3, 4}), I::normal({3, 4, 5})},
         "matmul: [2, 3, 4] x [3, 4, 5] do not fit; the axes before the last two must broadcast"},
        {"integers", {}, {I::index({3, 4}, 5), I::normal({4, 5})}, "matmul: a must be floating"},
    };
}

}  // namespace ops

Tensor matmul(Tensor a, Tensor b) {
    const bool row = a.defined() && a.rank() == 1, column = b.defined() && b.rank() == 1;
    if (row) a = a.unsqueeze(0);
    if (column) b = b.unsqueeze(1);
    Tensor c = apply<ops::Matmul>({}, std::move(a), std::move(b));
    if (column) c = c.squeeze(-1);
    if (row) c = c.squeeze(column ? -1 : -2);
    return c;
}

}  // namespace headroom
