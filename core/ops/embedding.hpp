#pragma once
// Rows of a table by index: token and position embeddings. For indices along other axes see index.hpp.
//
//     Tensor table = context.from_host(values, {65, 128}).requires_grad_();
//     Tensor x = embedding(table, ids);                  // ids [12, 64] -> x [12, 64, 128]
//     Tensor y = embedding(table, ids, 0);               // row 0 stands for padding: it gets no gradient
#include <cstdint>
#include <optional>

#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Embedding {
    static constexpr OpInfo info{.name = "embedding", .precision = Precision::full};
    struct Attrs {
        std::optional<std::int64_t> padding_index{};
    };
    struct Saved {
        Array ids;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& table, const Array& ids);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// table [V, D], ids [...] (i32 or i64) -> [..., D] in the table's dtype. Row `padding_index` gets no gradient;
/// negative values count from the end. Errors: ShapeError, also for an index outside [0, V), with its value and
/// position, and for a padding_index outside [-V, V); DtypeError.
Tensor embedding(Tensor table, Tensor ids, std::optional<std::int64_t> padding_index = {});

}  // namespace headroom
