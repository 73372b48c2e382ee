#pragma once
// An op's backward writes its gradients to a GradSink. The receiver decides place and dtype: a matmul writes dW
// straight into the parameter's gradient with beta = 1, dX straight into the residual stream's. An op that can't
// accumulate gives an array instead, which is adopted, shared or added. Ops receive a sink, by value; nothing else
// makes one.
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

/// Storage for the gradient of one input, with the input's shape and strides.
struct GradientDestination {
    Array array;        ///< undefined if the gradient is not wanted
    float beta = 0.0f;  ///< 0: overwrite (contents are indeterminate), 1: add to the contents

    explicit operator bool() const { return array.defined(); }
    View view() const { return array.view(); }
};

class GradSink {
  public:
    /// The number of inputs that the op was called with.
    int inputs() const;
    /// True if input `i` takes part in differentiation.
    bool wanted(int i) const;
    /// The shape of input `i`, which must be defined.
    const Shape& shape(int i) const;
    /// The storage to write the gradient of input `i` to, before the next call; undefined if it is not wanted. Its
    /// dtype may be f32 for a half operand.
    GradientDestination destination(int i);
    /// As `destination`, and offers the storage of `spent`: dy or a saved array that backward no longer needs, or that
    /// it reads element by element as it writes. The offer is taken if nothing else holds the storage and no gradient
    /// has arrived yet.
    GradientDestination destination(int i, Array& spent);
    /// Hands over a finished gradient of the input's shape; it may be shared with another input's. The first gradient
    /// is kept as it is, if it lies in memory as the input does; else it is added. Ignored if not wanted.
    void give(int i, Array gradient);

  private:
    friend class Tape;
    GradSink(class Tape& tape, struct Record& record) : tape_(&tape), record_(&record) {}
    class Tape* tape_;
    struct Record* record_;
};

}  // namespace headroom
