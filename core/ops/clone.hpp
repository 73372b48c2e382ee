#pragma once
// Recorded copies, in a tensor's own memory order or in another one. `contiguous()` and `reshape` copy to another order
// if the strides require it.
//
//     Tensor y = clone(x);
//     Tensor images = contiguous(x, MemoryFormat::channels_last);   // [N, C, H, W] in shape; x itself if it already is
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Clone {
    static constexpr OpInfo info{.name = "clone", .precision = Precision::full};
    struct Attrs {};
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

/// A layout conversion; reports count it separately from `Clone`.
struct Contiguous {
    static constexpr OpInfo info{.name = "contiguous", .precision = Precision::full};
    struct Attrs {
        MemoryFormat format = MemoryFormat::contiguous;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// Always copies; the result has no gaps and x's order of axes in memory.
Tensor clone(Tensor x);
/// x itself if it already has that memory order without gaps, else a copy. Errors: ShapeError for channels_last with
/// fewer than three axes.
Tensor contiguous(Tensor x, MemoryFormat format = MemoryFormat::contiguous);

}  // namespace headroom
