#pragma once
// The receiver of the gradients that an op's backward computes. The receiver decides place and dtype: a matmul writes
// dW straight into the parameter's gradient with beta = 1, and dX straight into the residual stream's. An op that can't
// accumulate passes an array instead, which is adopted, shared or added. Ops receive a sink by value; only the tape
// creates one.
//
//     if (auto target = sink.destination(0)) {
//         exec.launch([&](auto& s) { kernels::map_backward(s, f, x.view(), dy.view(), target.beta, target.view()); });
//     }
//     if (sink.wanted(1)) sink.give(1, dy);
//
// Write into the destination of one input before asking for the next one's: both may be the same value.
#include <cstdint>

#include <headroom/core/array.hpp>

namespace headroom {

/// Storage for the gradient of one input, with that input's shape and strides.
struct GradientDestination {
    Array array;        ///< undefined if the gradient is not wanted
    float beta = 0.0f;  ///< 0: overwrite (contents are indeterminate), 1: add to the contents

    explicit operator bool() const { return array.defined(); }
    View view() const { return array.view(); }
};

class GradSink {
  public:
    /// Number of inputs of the op call.
    int inputs() const;
    /// True if input `i` needs a gradient.
    bool wanted(int i) const;
    /// The shape of input `i`, which must be defined.
    const Shape& shape(int i) const;
    /// Storage for the gradient of input `i`; write to it before the next call. Undefined if the gradient is not
    /// wanted. Its dtype may be f32 for a half-precision input.
    GradientDestination destination(int i);
    /// The same, and offers the storage of `spent` for reuse: dy or a saved array that backward no longer needs, or
    /// reads element by element as it writes. The offer is taken if nothing else holds the storage and no gradient has
    /// arrived yet.
    GradientDestination destination(int i, Array& spent);
    /// Passes on a finished gradient of the input's shape; several inputs may share one. The first gradient is adopted
    /// if it has the input's memory layout; every other one is added. Ignored if not wanted.
    void give(int i, Array gradient);

  private:
    friend class Tape;
    GradSink(class Tape& tape, struct Record& record) : tape_(&tape), record_(&record) {}
    class Tape* tape_;
    struct Record* record_;
};

}  // namespace headroom
