#pragma once
// Simulates refusals by the library, for tests in the emulator's build.
//
//     stream.state->get<EmulatedBlas>().takes = [](const Gemm& gemm) { return !gemm.fused(); };
#include <functional>

#include <headroom/kernels/matmul/internal/gemm.hpp>

namespace headroom::kernels {

/// Part of a stream's state.
struct EmulatedBlas {
    std::function<bool(const Gemm&)> takes;  ///< empty: takes all
    bool tries = false;  ///< work that is possible without an epilogue is done so, as if that were found faster
};

}  // namespace headroom::kernels
