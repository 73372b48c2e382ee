#pragma once
// For tests of refusals by the library, in the emulator's build. Internal to kernels/matmul.
//
//     stream.state->get<EmulatedBlas>().takes = [](const Gemm& gemm) { return !gemm.fused(); };
#include <functional>

#include <headroom/kernels/matmul/gemm.hpp>

namespace headroom::kernels {

/// A stream's state.
struct EmulatedBlas {
    std::function<bool(const Gemm&)> takes;  ///< empty: all
};

}  // namespace headroom::kernels
