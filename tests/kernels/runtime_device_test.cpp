// The host's side of a GPU, cuda_device.cpp and cuda_staging.cpp, over a runtime whose streams do their work at any
// time that events leave open.
#include <headroom/kernels/device/cuda_device.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/fake_runtime/fake_runtime.hpp>

namespace headroom::kernels {
namespace {

using Bytes = std::vector<std::byte>;

class RuntimeDevice : public testing::TestWithParam<int> {
  protected:
    RuntimeDevice() {
        fake_runtime::reset(static_cast<std::uint64_t>(GetParam()));
        device = open_cuda_device(0);
    }
    ~RuntimeDevice() override {
        device.reset();
        EXPECT_EQ(fake_runtime::problem(), "");
    }
    Bytes noise(std::size_t bytes) {
        Bytes result(bytes);
        for (std::size_t i = 0; i < bytes; i += 7) result[i] = static_cast<std::byte>(random());
        return result;
    }
    /// A kernel.
    void launch(std::function<void()> work) { fake_runtime::enqueue(device->native(), std::move(work)); }

    std::unique_ptr<CudaDevice> device;
    std::mt19937_64 random{static_cast<std::uint64_t>(GetParam())};
};

/// More than all chunks of page-locked memory hold, on two queues in turn; the host's memory is used again at once.
TEST_P(RuntimeDevice, UploadsArriveWholeAndInOrder) {
    const CudaQueue queues[] = {CudaQueue::compute, CudaQueue::uploads};
    Bytes expected[2], found[2];
    for (auto* memory : {&expected, &found})
        for (Bytes& half : *memory) half.resize(std::size_t{3} << 20);
    for (std::size_t copied = 0; copied < std::size_t{40} << 20;) {
        const std::size_t queue = random() % 2, most = random() % 3 == 0 ? std::size_t{2} << 20 : 5000;
        Bytes bytes = noise(1 + random() % most);
        const std::size_t at = random() % (found[queue].size() - bytes.size());
        std::copy(bytes.begin(), bytes.end(), expected[queue].begin() + static_cast<std::ptrdiff_t>(at));
        device->copy_to_device(bytes.data(), found[queue].data() + at, bytes.size(), queues[queue]);
        copied += bytes.size();
        std::fill(bytes.begin(), bytes.end(), std::byte{0xee});
    }
    device->synchronize();
    EXPECT_TRUE(fake_runtime::idle());
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(found[i] == expected[i]) << "queue " << i;
}

TEST_P(RuntimeDevice, TheHostIsNoMoreThanOneRoundAhead) {
    const Bytes bytes = noise(std::size_t{1} << 20);
    Bytes to(bytes.size());
    for (int i = 0; i < 8; ++i) device->copy_to_device(bytes.data(), to.data(), bytes.size());
    EXPECT_EQ(device->host_waits(), 0);
    for (int i = 0; i < 8; ++i) device->copy_to_device(bytes.data(), to.data(), bytes.size());
    EXPECT_EQ(device->host_waits() > 0, GetParam() % 2 == 0);  // even seeds do work when they must
    device->synchronize();
}

TEST_P(RuntimeDevice, DownloadsWaitForTheirWork) {
    for (int round = 0; round < 20; ++round) {
        int value = 0, all = 0, early = 0;
        launch([&] { value = 1; });
        const auto event = device->make_event();
        device->record(*event, CudaQueue::compute);
        int other = 0;
        launch([&] { other = 2; });
        device->copy_to_host(&value, &early, sizeof early, event.get());
        EXPECT_EQ(early, 1);
        device->copy_to_host(&other, &all, sizeof all);
        EXPECT_EQ(all, 2);
    }
    EXPECT_EQ(device->host_waits(), 40);
}

TEST_P(RuntimeDevice, QueuesWaitForEachOthersEvents) {
    const auto uploaded = device->make_event(), used = device->make_event();
    int slot = 0, sum = 0, result = 0;
    for (int i = 1; i <= 50; ++i) {
        device->wait(CudaQueue::uploads, *used);
        device->copy_to_device(&i, &slot, sizeof i, CudaQueue::uploads);
        device->record(*uploaded, CudaQueue::uploads);
        device->wait(CudaQueue::compute, *uploaded);
        launch([&] { sum = 3 * sum % 1000 + slot; });
        device->record(*used, CudaQueue::compute);
    }
    device->copy(&sum, &result, sizeof sum);
    device->synchronize();
    int expected = 0;
    for (int i = 1; i <= 50; ++i) expected = 3 * expected % 1000 + i;
    EXPECT_EQ(result, expected);
}

TEST_P(RuntimeDevice, SynchronizeWaitsForUploadsAndKernels) {
    for (int round = 0; round < 20; ++round) {
        int uploaded = 0, computed = 0;
        const int one = 1;
        device->copy_to_device(&one, &uploaded, sizeof one, CudaQueue::uploads);
        launch([&] { computed = 1; });
        device->synchronize();
        EXPECT_EQ(uploaded + computed, 2);
    }
}

TEST_P(RuntimeDevice, ClosingWaitsForWhatIsUnderWay) {
    const Bytes bytes = noise(5000);
    Bytes to(bytes.size());
    device->copy_to_device(bytes.data(), to.data(), bytes.size(), CudaQueue::uploads);
    device.reset();
    EXPECT_TRUE(to == bytes);
}

TEST_P(RuntimeDevice, RefusesAllWorkAfterACopyThatFailed) {
    const Bytes bytes = noise(std::size_t{3} << 20);
    Bytes to(bytes.size());
    fake_runtime::fail_after(2);
    EXPECT_THROW(device->copy_to_device(bytes.data(), to.data(), bytes.size()), DeviceError);
    EXPECT_TRUE(fake_runtime::idle());  // what was under way has no event behind it
    EXPECT_THROW(device->synchronize(), DeviceError);
    fake_runtime::reset(0);
}

TEST_P(RuntimeDevice, SaysWhatTheGpuIs) {
    EXPECT_EQ(device->properties().name, "fake runtime");
    EXPECT_EQ(device->properties().major, 9);
    EXPECT_EQ(device->properties().multiprocessors, 132);
    EXPECT_EQ(device->properties().shared_bytes, 227u * 1024);
    EXPECT_FALSE(device->take_index_error());
    EXPECT_THROW(open_cuda_device(1), DeviceError);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RuntimeDevice, testing::Range(0, 6));

}  // namespace
}  // namespace headroom::kernels
