#include <headroom/core/overhead.hpp>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/device_memory.hpp>

namespace headroom {
namespace {

// A real GPU's other programs come and go; the emulated one has none.
TEST(OverheadCuda, IsWhatOthersTakeAndNotWhatTheAllocatorReserves) {
    if (!kernels::cuda_is_emulated()) GTEST_SKIP() << "a GPU's other programs come and go";
    Context context = Context::cuda();
    const Tensor own = zeros(context, {1000});  // of a page that is reserved
    EXPECT_EQ(used_beside(context), 0u);
    memory::DeviceMemory other(context.gpu()->make_driver());
    const memory::Allocation block = other.allocate(1, 0, {});
    EXPECT_EQ(used_beside(context), other.statistics().reserved);
    const Tensor more = zeros(context, {1 << 22});
    EXPECT_EQ(used_beside(context), other.statistics().reserved);
    other.deallocate(block.handle);
    other.trim();
    EXPECT_EQ(used_beside(context), 0u);
}

TEST(OverheadCuda, IsThereOnAGpuOnly) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    Context gpu = Context::cuda(), cpu = Context::cpu(), dry = Context::dry(gpu.profile());
    EXPECT_TRUE(used_beside(gpu));
    EXPECT_FALSE(used_beside(cpu));
    EXPECT_FALSE(used_beside(dry));
}

}  // namespace
}  // namespace headroom
