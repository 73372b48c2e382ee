#pragma once
// Recorded copies: of a tensor as it lies in memory, and in another order of memory, which is what `contiguous()` and
// `reshape` make where strides demand it.
//
//     Tensor y = clone(x);
//     Tensor images = contiguous(x, MemoryFormat::channels_last);   // [N, C, H, W] in shape; x itself if it is so
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

/// A conversion of layout: what a report counts as one.
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

/// Always a copy, whose axes stand in memory in the order in which they do in x; without gaps.
Tensor clone(Tensor x);
/// x itself if its elements lie in the format's order without gaps, else a copy that does. Errors: ShapeError for
/// channels_last with fewer than three axes.
Tensor contiguous(Tensor x, MemoryFormat format = MemoryFormat::contiguous);

}  // namespace headroom
