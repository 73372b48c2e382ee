#include <headroom/core/ops/embedding.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/embedding/embedding.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

OpResult<Embedding::Saved, Array> Embedding::forward(Exec& exec, const Attrs& attrs, const Array& table,
                                                     const Array& ids) {
    check_floating("embedding", {{"table", table}});
    check_index("embedding", {"ids", ids});
    check_form("embedding", {"table", table}, table.rank() == 2, "[V, D]");
    check_form("embedding", {"ids", ids}, ids.rank() < kMaxRank, "reshaped to fewer axes");
    const std::int64_t rows = table.size(0), padding = attrs.padding_index.value_or(0);
    if (attrs.padding_index && (padding < -rows || padding >= rows)) {
        throw ShapeError(fmt::format("embedding: padding_index {} is outside of [{}, {})", padding, -rows, rows));
    }
    Shape shape = ids.shape();
    shape.push_back(table.size(1));
    Array y = exec.empty(shape, table.dtype);
    exec.launch([&](auto& stream) { kernels::embedding(stream, table.view(), ids.view(), y.view()); });
    return {{ids}, std::move(y)};
}

void Embedding::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    const auto dtable = sink.destination(0);
    if (!dtable) return;
    std::int64_t padding = attrs.padding_index.value_or(-1);
    if (attrs.padding_index && padding < 0) padding += dtable.view().size(0);
    exec.run<kernels::EmbeddingGradientPlan>(saved.ids.view(), dy.view(), dtable.view(), dtable.beta, padding);
}

std::vector<Sample<Embedding::Attrs>> Embedding::samples() {
    using I = SampleInput;
    return {
        {"sequence", {}, {I::normal({5, 3}), I::index({7}, 5)}},
        {"batches", {}, {I::normal({4, 2}), I::index({2, 3}, 4)}},
        {"one", {}, {I::normal({4, 3}), I::index({}, 4)}},
        {"no ids", {}, {I::normal({4, 3}), I::index({0}, 4)}},
        {"no such padding", {5}, {I::normal({5, 3}), I::index({7}, 5)}, "padding_index 5 is outside of [-5, 5)"},
        {"no width", {}, {I::normal({4, 0}), I::index({3}, 4)}},
        {"the table's rank", {}, {I::normal({5}), I::index({3}, 5)}, "embedding: table [5] must be [V, D]"},
        {"the table's dtype", {}, {I::index({5, 3}, 2), I::index({3}, 5)}, "embedding: table must be floating"},
        {"the ids' dtype", {}, {I::normal({5, 3}), I::normal({3})}, "embedding: ids must be i32 or i64"},
    };
}

}  // namespace ops

Tensor embedding(Tensor table, Tensor ids, std::optional<std::int64_t> padding_index) {
    return apply<ops::Embedding>({padding_index}, std::move(table), std::move(ids));
}

}  // namespace headroom
