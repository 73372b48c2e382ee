#pragma once
// For tests of refusals by the library, in the emulator's build.
//
//     stream.state->get<EmulatedBlas>().takes = [](const Gemm& gemm) { return !gemm.fused(); };
#include <functional>

#include <headroom/kernels/matmul/internal/gemm.hpp>

namespace headroom::kernels {

/// A stream's state.
struct EmulatedBlas {
    std::function<bool(const Gemm&)> takes;  ///< empty: all
    bool tries = false;                      ///< what can be done without an epilogue is, as if it were found faster
};

}  // namespace headroom::kernels
