#pragma once
// Arrays with elements added at the ends of axes, or taken away. For the padding of a convolution or a pool see its
// own options, which take no memory.
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
    reflect,    ///< mirrored at the end, which is not repeated
    replicate,  ///< the end, again and again
};

namespace ops {

struct Pad {
    static constexpr OpInfo info{.name = "pad"};
    struct Attrs {
        Shape front{}, behind{};  ///< elements that are added to the last axis, to the one before it, and so on
        PadMode mode = PadMode::constant;
        double value = 0;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// `amounts` come in pairs, in front and behind, for the last axis first, then for the one before it, and so on, as in
/// PyTorch; a negative one takes elements away. Constant: any axes and dtype, `value` is rounded to it. Reflect and
/// replicate: the last two axes of x [N, C, H, W], floating; a reflected part must be smaller than its axis. Errors:
/// ShapeError, also for a result without elements where x has some; DtypeError, also for a value that integers can't
/// hold; Error for amounts that are no pairs, and for a value in another mode than constant.
Tensor pad(Tensor x, const std::vector<std::int64_t>& amounts, PadMode mode = PadMode::constant, double value = 0);

}  // namespace headroom
