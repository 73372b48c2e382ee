#pragma once
// Rows of a table by index: token and position embeddings. For indices along other axes see index.hpp.
//
//     Tensor table = context.from_host(values, {65, 128}).requires_grad_();
//     Tensor x = embedding(table, ids);                  // ids [12, 64] -> x [12, 64, 128]
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Embedding {
    static constexpr OpInfo info{.name = "embedding", .precision = Precision::full};
    struct Attrs {};
    struct Saved {
        Array ids;
    };
    static Result<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& table, const Array& ids);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// table [V, D], ids [...] (i32 or i64) -> [..., D] in the table's dtype. Errors: ShapeError, for an index outside of
/// [0, V) too, with its value and position; DtypeError.
Tensor embedding(Tensor table, Tensor ids);

}  // namespace headroom
