#include <headroom/core/overhead.hpp>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/device_memory.hpp>

namespace headroom {
namespace overhead_cuda_test {

// A real GPU's other programs come and go; the emulated one has none.
TEST(OverheadCuda, IsWhatOthersTakeAndNotWhatTheAllocatorReserves) {
    if (!kernels::cuda_is_emulated()) GTEST_SKIP() << "a GPU's other programs come and go";
    Context context = Context::cuda();
    const Tensor own = zeros(context, {1000});  // of a page that is reserved
    EXPECT_EQ(unaccounted_device_bytes(context), 0u);
    memory::DeviceMemory other(context.gpu()->make_driver());
    const memory::Allocation block = other.allocate(1, 0, {});
    EXPECT_EQ(unaccounted_device_bytes(context), other.statistics().reserved);
    const Tensor more = zeros(context, {1 << 22});
    EXPECT_EQ(unaccounted_device_bytes(context), other.statistics().reserved);
    other.deallocate(block.handle);
    other.trim();
    EXPECT_EQ(unaccounted_device_bytes(context), 0u);
}

/// What others use when a context begins is left to them, as far as it exceeds what CUDA itself takes then.
TEST(OverheadCuda, OfOthersIsLeftToThem) {
    if (!kernels::cuda_is_emulated()) GTEST_SKIP() << "a GPU's other programs come and go";
    const Profile alone = Context::cuda().profile();
    EXPECT_EQ(alone.reserve, kGpuReserve);
    EXPECT_EQ(alone.reserved_bytes(), kGpuReserve);
    const Context owner = Context::cuda();
    memory::DeviceMemory other(owner.gpu()->make_driver());
    const std::size_t bytes = std::size_t{1} << 30;  // that are reserved, and never touched
    const memory::Allocation block = other.allocate(bytes, 0, {});
    Context beside = Context::cuda(0, {.gpu_reserve = std::size_t{100} << 20});
    EXPECT_EQ(beside.profile().in_use, alone.in_use + bytes);
    EXPECT_EQ(beside.profile().reserved_bytes(), alone.in_use + bytes + (std::size_t{50} << 20));
    EXPECT_EQ(beside.memory().options().reserve, beside.profile().reserved_bytes());
    EXPECT_EQ(Context::dry(beside.profile()).memory().options().reserve, beside.profile().reserved_bytes());
    Context told = Context::cuda(0, {.gpu_in_use = 7});
    EXPECT_EQ(told.profile().in_use, 7u);
    EXPECT_EQ(told.profile().reserved_bytes(), kGpuReserve);
    other.deallocate(block.handle);
}

TEST(GpuRates, AreThoseOfTheMostSimilarCard) {
    for (int index = 0; index < kernels::cuda_device_count(); ++index) {
        const GpuModel found = Context::cuda(index).profile().model;
        EXPECT_EQ(found.rates, kernels::nearest_gpu(found.capability, found.multiprocessors, found.memory_bytes).rates);
        if (!kernels::cuda_is_emulated()) continue;
        EXPECT_EQ(found.rates, gpu_model(index == 2 ? "T4" : index == 1 ? "RTX 3060" : "A100 40GB").rates) << index;
    }
}

TEST(OverheadCuda, IsThereOnAGpuOnly) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    Context gpu = Context::cuda(), cpu = Context::cpu(), dry = Context::dry(gpu.profile());
    EXPECT_TRUE(unaccounted_device_bytes(gpu));
    EXPECT_FALSE(unaccounted_device_bytes(cpu));
    EXPECT_FALSE(unaccounted_device_bytes(dry));
}

}  // namespace overhead_cuda_test
}  // namespace headroom
