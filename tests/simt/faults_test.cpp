// Faults that the emulator finds by itself, in every build. What a sanitizer finds is in faults_sanitizer_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <headroom/memory/error.hpp>
#include <headroom/tests/simt/emulator.hpp>
#include <headroom/tests/simt/kernels/faults.hpp>

namespace headroom::simt {
namespace faults_test {

using testing::AllOf;
using testing::HasSubstr;

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 2;  // threads that never finish are made anew, which takes ThreadSanitizer a while
#else
constexpr std::uint64_t kSeeds = 20;
#endif

struct Small {
    static constexpr unsigned kMaxThreads = 64;
    void operator()(kernels::device::Block&) const {}
};

/// What the emulator says of the kernel; the same fault must be found in every order of threads.
template <class Kernel, class... Args>
std::string fault(const Kernel& kernel, Args... args) {
    std::string text;
    Emulator gpu;
    for (std::uint64_t seed = gpu.seed(), i = 0; i < kSeeds; ++i) {
        gpu.reseed(seed + i);
        try {
            kernels::device::launch(gpu, faults::faulty_shape(), kernel, args...);
            ADD_FAILURE() << "nothing was found with HEADROOM_TEST_SEED=" << gpu.seed();
        } catch (const KernelError& error) {
            text = error.what();
        }
    }
    return text;
}

/// Names the kernel, the block, the line and the seed.
testing::Matcher<std::string> names(const char* kernel) {
    return AllOf(HasSubstr(kernel), HasSubstr("block (0, 0, 0)"), HasSubstr("faults.hpp:"),
                 HasSubstr("HEADROOM_TEST_SEED="));
}

TEST(Faults, WritePastTheEndOfSharedMemoryIsFound) {
    EXPECT_THAT(fault(faults::SharedPastTheEnd{}),
                AllOf(names("SharedPastTheEnd"), HasSubstr("thread 63"),
                      HasSubstr("elements 63 to 63 are outside of shared memory for 63 elements")));
    EXPECT_THAT(fault(faults::SharedVectorPastTheEnd{}),
                AllOf(names("SharedVectorPastTheEnd"), HasSubstr("elements 60 to 63 are outside")));
    EXPECT_THAT(fault(faults::SharedBeforeTheBegin{}), AllOf(names("SharedBeforeTheBegin"), HasSubstr("thread 0")));
}

TEST(Faults, ReadOfUnwrittenSharedMemoryIsFound) {
    Array<float> y(faults::kThreads);
    EXPECT_THAT(fault(faults::ReadOfUnwritten{}, y.data()),
                AllOf(names("ReadOfUnwritten"), HasSubstr("thread 60"), HasSubstr("nobody has written")));
}

TEST(Faults, MisalignedVectorsAreFound) {
    Array<float> x(faults::kThreads), y(faults::kThreads);
    EXPECT_THAT(fault(faults::MisalignedLoad{}, x.data(), y.data()),
                AllOf(names("MisalignedLoad"), HasSubstr("16 bytes is misaligned by 4")));
    EXPECT_THAT(fault(faults::MisalignedSharedStore{}),
                AllOf(names("MisalignedSharedStore"), HasSubstr("16 bytes is misaligned by 8")));
}

TEST(Faults, DivergentBarrierIsReportedWithWhoWaitsWhereAndWhoIsMissing) {
    EXPECT_THAT(fault(faults::DivergentSync{}), AllOf(names("DivergentSync"), HasSubstr("threads 0-15 wait in sync at"),
                                                      HasSubstr("threads 16-63 have returned")));
    EXPECT_THAT(fault(faults::ReturnBeforeSync{}),
                AllOf(names("ReturnBeforeSync"), HasSubstr("threads 50-63 have returned")));
    EXPECT_THAT(fault(faults::SyncInBothBranches{}),
                AllOf(names("SyncInBothBranches"), HasSubstr("threads 0, 2, 4, 6")));
    EXPECT_THAT(fault(faults::SyncAgainstWarpSync{}),
                AllOf(names("SyncAgainstWarpSync"), HasSubstr("threads 5 wait in warp_sync with mask 0xffffffff"),
                      HasSubstr("threads 0-4, 6-63 wait in sync")));
}

TEST(Faults, CollectivesOfAWarpAreHeldToTheirMask) {
    Array<float> y(faults::kThreads);
    EXPECT_THAT(fault(faults::FullMaskInBranch{}, y.data()),
                AllOf(names("FullMaskInBranch"), HasSubstr("wait in a shuffle with mask 0xffffffff")));
    EXPECT_THAT(fault(faults::MaskWithoutCaller{}),
                AllOf(names("MaskWithoutCaller"), HasSubstr("leaves out the lane")));
    EXPECT_THAT(fault(faults::ShuffleFromOutside{}, y.data()),
                AllOf(names("ShuffleFromOutside"), HasSubstr("lane 16, which is not in its mask")));
}

TEST(Faults, SharedMemoryIsLaidOutAlikeByAllThreadsAndFitsTheLaunch) {
    EXPECT_THAT(fault(faults::MoreSharedThanLaunched{}),
                AllOf(names("MoreSharedThanLaunched"), HasSubstr("shared_bytes")));
    EXPECT_THAT(fault(faults::SharedInDifferentSizes{}),
                AllOf(names("SharedInDifferentSizes"), HasSubstr("different sizes")));
}

TEST(Faults, TilesAreAlignedAndTheSameForAllLanes) {
    Array<f16> x(512);
    EXPECT_THAT(fault(faults::MisalignedTile{}, x.data()),
                AllOf(names("MisalignedTile"), HasSubstr("misaligned by 16")));
    EXPECT_THAT(fault(faults::TileOfTwoAddresses{}, x.data()),
                AllOf(names("TileOfTwoAddresses"), HasSubstr("different addresses")));
}

TEST(Faults, ShapesThatNoGpuRunsAreRefused) {
    Emulator gpu;
    const faults::DivergentSync kernel;
    EXPECT_THROW(kernels::device::launch(gpu, {.threads = 33}, kernel), ShapeError);
    EXPECT_THROW(kernels::device::launch(gpu, {.threads = 0}, kernel), ShapeError);
    EXPECT_THROW(kernels::device::launch(gpu, {.threads = 1056}, kernel), ShapeError);
    EXPECT_THROW(kernels::device::launch(gpu, {.y = 65536}, kernel), ShapeError);
    EXPECT_THROW(kernels::device::launch(gpu, {.shared_bytes = 1 << 20}, kernel), ShapeError);
    EXPECT_NO_THROW(kernels::device::launch(gpu, {.x = 0}, kernel));
    EXPECT_NO_THROW(kernels::device::launch(gpu, {.threads = 64}, Small{}));
    EXPECT_THAT([&] { kernels::device::launch(gpu, {.threads = 96}, Small{}); },
                testing::ThrowsMessage<ShapeError>(HasSubstr("96 threads per block, but the kernel takes at most 64")));
}

}  // namespace faults_test
}  // namespace headroom::simt
