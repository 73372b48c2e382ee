// The example of docs/kernel_tests.md.
#include <gtest/gtest.h>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/tests/simt/emulator.hpp>

namespace headroom {
namespace scale_test {

using namespace headroom::kernels::device;

// scale.cu
struct Scale {
    HEADROOM_DEVICE void operator()(Block& block, float* x, float factor, std::int64_t n) const {
        for (std::int64_t i = block.global_thread(); i < n; i += block.global_threads()) x[i] *= factor;
    }
};
void scale(kernels::device::Stream stream, float* x, float factor, std::int64_t n) {
    launch(stream, {.x = blocks_for(n, 256), .threads = 256}, Scale{}, x, factor, n);
}

TEST(Scale, IsTheDocumentsExample) {
    // scale_test.cpp
    simt::Emulator gpu;  // the Stream of this build
    simt::Array<float> x(1025, 1.0f);
    scale(gpu, x.data(), 2.0f, x.size());  // throws simt::KernelError if the kernel breaks a rule
    for (const float value : x) EXPECT_EQ(value, 2.0f);
}

}  // namespace scale_test
}  // namespace headroom
