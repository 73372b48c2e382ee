#pragma once
// Adds elements at the ends of axes, or removes them. For the padding of a convolution or pool use its own options,
// which take no memory.
//
//     Tensor y = pad(x, {1, 2, 3, 4});                       // 1 column in front, 2 behind; 3 rows above, 4 below
//     Tensor z = pad(x, {1, 1, 1, 1}, PadMode::reflect);
//     Tensor smaller = pad(x, {-1, -1});                     // without the first and the last column
#include <cstdint>
#include <vector>

#include <headroom/core/apply.hpp>

namespace headroom {

enum class PadMode : std::uint8_t {
    constant,   ///< a value
    reflect,    ///< mirrored at the end, without repeating the end itself
    replicate,  ///< the end element, repeated
};

namespace ops {

struct Pad {
    static constexpr OpInfo info{.name = "pad"};
    struct Attrs {
        Shape front{}, behind{};  ///< elements added to the last axis, to the one before it, and so on
        PadMode mode = PadMode::constant;
        double value = 0;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// `amounts` are (front, back) pairs for the last axis first, then for the one before it, and so on, as in PyTorch; a
/// negative amount removes elements. Constant: any axes and dtype; `value` is rounded to the dtype. Reflect and
/// replicate: the last two axes of a floating x [N, C, H, W]; a reflected part must be smaller than its axis. Errors:
/// ShapeError, also for a result without elements if x has some; DtypeError, also for a value that an integer dtype
/// can't represent; Error for amounts that are not pairs, and for a value in a mode other than constant.
Tensor pad(Tensor x, const std::vector<std::int64_t>& amounts, PadMode mode = PadMode::constant, double value = 0);

}  // namespace headroom
