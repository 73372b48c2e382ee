#pragma once
// One-hot vectors of indices. For rows of a table by index see embedding.hpp, which needs no such vectors.
//
//     Tensor targets = one_hot(labels, 10, Dtype::f32);     // [64] -> [64, 10]
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct OneHot {
    static constexpr OpInfo info{.name = "one_hot"};
    struct Attrs {
        std::int64_t classes = 1;
        Dtype dtype = Dtype::i64;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& index);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// y[..., c] = 1 where index [...] is c, else 0: [..., classes]. Indices are i32 or i64. The caller gives the number of
/// classes, because values on the device are not read. Errors: ShapeError, also for an index outside [0, classes);
/// DtypeError.
Tensor one_hot(Tensor index, std::int64_t classes, Dtype dtype = Dtype::i64);

}  // namespace headroom
