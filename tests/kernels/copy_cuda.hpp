#pragma once
// What tests of copy and of accumulate on a GPU share.
#include <cstdint>
#include <initializer_list>

#include <headroom/kernels/copy/copy.hpp>
#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/sample.hpp>

namespace headroom::kernels::test {

/// Distinct values that every dtype holds.
inline void number(TestArray& x) {
    for (std::int64_t i = 0; i < x.numel(); ++i) {
        x.set(i, static_cast<double>(x.view().dtype == Dtype::boolean ? i % 2 : i % 113));
    }
}

/// The same view with its axes in another order.
inline View permuted(const View& x, std::initializer_list<int> axes) {
    View result{x.data, x.dtype, {}, {}};
    for (const int axis : axes) {
        result.shape.push_back(x.size(axis));
        result.strides.push_back(x.stride(axis));
    }
    return result;
}

/// Compares with the CPU.
class CopyCudaTest : public CudaTest {
  protected:
    CpuStream cpu_{2};
    Sample sample_;
};

}  // namespace headroom::kernels::test
