#pragma once
// The CUDA driver as it stands in memory/, over a library that acts as libcuda on host memory.
//
//     std::unique_ptr<memory::Driver> driver = make_fake_cuda();     // 1 GB, 2 MiB pages, work done 100 calls later
//     fake_cuda::fail("cuMemSetAccess", CUDA_ERROR_INVALID_VALUE);
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <headroom/memory/cuda_driver.hpp>
#include <headroom/tests/memory/fake_cuda/control.hpp>

namespace headroom::memory::test {

/// A driver over the fake library as `fake_cuda::reset` left it, with `streams` streams.
inline std::unique_ptr<Driver> open_fake_cuda(int device = 0, int streams = 64) {
    std::vector<CUstream_st*> all;
    for (int i = 0; i < streams; ++i) all.push_back(fake_cuda::stream(i));
    return make_cuda_driver({.device = device, .streams = all, .library = HEADROOM_FAKE_CUDA});
}

/// As a new process would open it, if no other driver over it is in use.
inline std::unique_ptr<Driver> make_fake_cuda() {
    if (fake_cuda::usage() == fake_cuda::Usage{}) fake_cuda::reset({.latency = 100});
    return open_fake_cuda();
}

inline std::vector<PageHandle> create_pages(Driver& driver, int count) {
    std::vector<PageHandle> pages;
    for (int i = 0; i < count; ++i) pages.push_back(driver.create());
    return pages;
}

inline void destroy_pages(Driver& driver, const std::vector<PageHandle>& pages) {
    for (const PageHandle page : pages) driver.destroy(page);
}

/// The granularity of the fake device.
inline constexpr std::size_t kPage = 2 << 20;

/// Every test begins with a new driver library, and ends with nothing left over in it and without misuse of it.
class FakeCudaTest : public ::testing::Test {
  protected:
    void SetUp() override { fake_cuda::reset(); }
    void TearDown() override {
        EXPECT_EQ(fake_cuda::usage(), fake_cuda::Usage{});
        EXPECT_EQ(fake_cuda::take_misuses(), std::vector<std::string>{});
        EXPECT_EQ(fake_cuda::thread(), fake_cuda::Thread{});
    }
};

}  // namespace headroom::memory::test
