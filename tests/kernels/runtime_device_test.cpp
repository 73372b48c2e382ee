// The host's side of a GPU, cuda_device.cpp, cuda_error.cpp and cuda_staging.cpp, over a runtime whose streams do their
// work at any time that events leave open.
#include <headroom/kernels/device/cuda_device.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_error.hpp>
#include <headroom/kernels/device/internal/cuda_timing.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/tests/kernels/fake_runtime/fake_runtime.hpp>

namespace headroom::kernels {
namespace runtime_device_test {

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

/// More than all chunks of page-locked memory hold, on three queues in turn; the host's memory is used again at once.
TEST_P(RuntimeDevice, UploadsArriveWholeAndInOrder) {
    const CudaQueue queues[] = {CudaQueue::compute, CudaQueue::uploads, CudaQueue::exchanges};
    Bytes expected[3], found[3];
    for (auto* memory : {&expected, &found})
        for (Bytes& half : *memory) half.resize(std::size_t{3} << 20);
    for (std::size_t copied = 0; copied < std::size_t{60} << 20;) {
        const std::size_t queue = random() % 3, most = random() % 3 == 0 ? std::size_t{2} << 20 : 5000;
        Bytes bytes = noise(1 + random() % most);
        const std::size_t at = random() % (found[queue].size() - bytes.size());
        std::copy(bytes.begin(), bytes.end(), expected[queue].begin() + static_cast<std::ptrdiff_t>(at));
        device->copy_to_device(bytes.data(), found[queue].data() + at, bytes.size(), queues[queue]);
        copied += bytes.size();
        std::fill(bytes.begin(), bytes.end(), std::byte{0xee});
    }
    device->synchronize();
    EXPECT_TRUE(fake_runtime::idle());
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(found[i] == expected[i]) << "queue " << i;
}

/// The first time of each, when CUDA loads a kernel's code, is left out.
TEST_P(RuntimeDevice, TimesOfWorkAreThoseBehindItsFirstTime) {
    std::vector<int> done(3);
    const std::vector<float> times = time_each(*device, 3, [&](int i) {
        launch([&done, i] {
            const bool first = done[static_cast<std::size_t>(i)]++ == 0;
            fake_runtime::take_time(static_cast<float>(first ? 100 - i : 8 + i));
        });
    });
    EXPECT_EQ(times, (std::vector<float>{8, 9, 10}));
    EXPECT_EQ(done, (std::vector<int>{4, 4, 4}));
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

TEST_P(RuntimeDevice, ExchangesHaveAQueueOfTheirOwn) {
    const auto made = device->make_event(), exchanged = device->make_event();
    int number = 0, copied = 0, sum = 0;
    for (int i = 1; i <= 50; ++i) {
        launch([&, i] { number = i; });
        device->record(*made, CudaQueue::compute);
        device->wait(CudaQueue::exchanges, *made);
        device->copy(&number, &copied, sizeof number, CudaQueue::exchanges);
        fake_runtime::enqueue(device->native(CudaQueue::exchanges), [&] { copied *= 2; });
        device->record(*exchanged, CudaQueue::exchanges);
        device->wait(CudaQueue::compute, *exchanged);
        launch([&] { sum += copied; });
    }
    device->synchronize();
    EXPECT_EQ(sum, 50 * 51);
}

TEST_P(RuntimeDevice, SynchronizeWaitsForUploadsExchangesAndKernels) {
    for (int round = 0; round < 20; ++round) {
        int uploaded = 0, computed = 0, exchanged = 0;
        const int one = 1;
        device->copy_to_device(&one, &uploaded, sizeof one, CudaQueue::uploads);
        launch([&] { computed = 1; });
        device->copy(&one, &exchanged, sizeof one, CudaQueue::exchanges);
        device->synchronize();
        EXPECT_EQ(uploaded + computed + exchanged, 3);
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
    fake_runtime::fail("cudaMemcpyAsync", 2, cudaErrorUnknown, true);
    EXPECT_THROW(device->copy_to_device(bytes.data(), to.data(), bytes.size()), DeviceError);
    EXPECT_TRUE(fake_runtime::idle());  // what was under way has no event behind it
    EXPECT_THROW(device->synchronize(), DeviceError);
    fake_runtime::reset(0);
}

/// Page-locked memory, or any of the events that go with it.
TEST_P(RuntimeDevice, WorkGoesOnAfterMemoryThatWasNotThere) {
    const Bytes bytes = noise(std::size_t{3} << 20);
    for (const auto& [function, after] : {std::pair{"cudaHostAlloc", 0}, std::pair{"cudaEventCreateWithFlags", 0},
                                          std::pair{"cudaEventCreateWithFlags", 5}}) {
        SCOPED_TRACE(function);
        device = open_cuda_device(0);
        fake_runtime::fail(function, after, cudaErrorMemoryAllocation);
        Bytes to(bytes.size());
        EXPECT_THROW(device->copy_to_device(bytes.data(), to.data(), bytes.size()), memory::OutOfMemory);
        EXPECT_EQ(fake_runtime::problem(), "");
        device->copy_to_device(bytes.data(), to.data(), bytes.size());
        device->synchronize();
        EXPECT_TRUE(to == bytes);
    }
}

/// A copy of several parts is left in the middle.
TEST_P(RuntimeDevice, WorkGoesOnAfterACallThatWasRefused) {
    const Bytes bytes = noise(std::size_t{3} << 20);
    Bytes to(bytes.size());
    fake_runtime::fail("cudaMemcpyAsync", 2, cudaErrorInvalidValue);
    EXPECT_THROW(device->copy_to_device(bytes.data(), to.data(), bytes.size()), DeviceError);
    EXPECT_TRUE(fake_runtime::idle());
    for (int i = 0; i < 10; ++i) {
        std::fill(to.begin(), to.end(), std::byte{});
        device->copy_to_device(bytes.data(), to.data(), bytes.size());
        device->synchronize();
        EXPECT_TRUE(to == bytes);
    }
}

TEST_P(RuntimeDevice, RefusesWorkAfterErrorsThatCudaSaysAreForGood) {
    for (const cudaError_t error : {cudaErrorInvalidValue, cudaErrorInvalidConfiguration, cudaErrorLaunchOutOfResources,
                                    cudaErrorInvalidDeviceFunction, cudaErrorNoKernelImageForDevice,
                                    cudaErrorNotSupported, cudaErrorOperatingSystem}) {
        EXPECT_THROW(check_cuda(device.get(), "launch", error), DeviceError);
        device->check_usable();
    }
    EXPECT_THROW(check_cuda(device.get(), "launch", cudaErrorMemoryAllocation), memory::OutOfMemory);
    device->check_usable();
    for (const cudaError_t error : {cudaErrorIllegalAddress, cudaErrorMisalignedAddress, cudaErrorLaunchFailure,
                                    cudaErrorLaunchTimeout, cudaErrorECCUncorrectable, cudaErrorIllegalInstruction}) {
        device = open_cuda_device(0);
        EXPECT_THROW(check_cuda(device.get(), "launch", error), DeviceError);
        EXPECT_THROW(device->check_usable(), DeviceError);
    }
    EXPECT_THROW(check_cuda(nullptr, "launch", cudaErrorLaunchFailure), DeviceError);
    check_cuda(device.get(), "launch", cudaSuccess);
}

/// More copies than there are chunks of page-locked memory, on both queues.
TEST_P(RuntimeDevice, WhatCopiesNeedIsMadeByTheFirst) {
    Bytes to(std::size_t{1} << 20);
    const auto copy = [&](CudaQueue queue) {
        device->copy_to_device(noise(to.size()).data(), to.data(), to.size(), queue);
    };
    copy(CudaQueue::compute);
    copy(CudaQueue::uploads);
    const int memory = fake_runtime::calls("cudaHostAlloc"), events = fake_runtime::calls("cudaEventCreateWithFlags");
    for (int i = 0; i < 40; ++i) copy(i % 2 == 0 ? CudaQueue::compute : CudaQueue::uploads);
    EXPECT_EQ(fake_runtime::calls("cudaHostAlloc"), memory);
    EXPECT_EQ(fake_runtime::calls("cudaEventCreateWithFlags"), events);
    device->synchronize();
}

TEST_P(RuntimeDevice, AGraphDoesAgainWhatWasNoted) {
    int number = 1, copied = 0;
    device->begin_capture();
    launch([&] { number *= 3; });
    device->copy(&number, &copied, sizeof number);
    launch([&] { number += 1; });
    const std::unique_ptr<CudaGraph> graph = device->end_capture();
    device->synchronize();
    EXPECT_EQ(number, 1);
    int expected = 1;
    for (int i = 0; i < 5; ++i) {
        launch([&] { number += 2; });
        device->launch(*graph);
        expected = 3 * (expected + 2) + 1;
    }
    device->synchronize();
    EXPECT_EQ(number, expected);
    EXPECT_EQ(copied, expected - 1);
    EXPECT_EQ(fake_runtime::graphs(), 1);
}

TEST_P(RuntimeDevice, ACaptureThatFailsLeavesTheDeviceUsable) {
    int number = 0, from = 7;
    device->begin_capture();
    launch([&] { number = 1; });
    EXPECT_THROW(device->begin_capture(), CaptureError);
    EXPECT_THROW(device->copy_to_device(&from, &number, sizeof from), CaptureError);
    EXPECT_THROW(device->copy_to_host(&number, &from, sizeof from), CaptureError);
    EXPECT_THROW(device->synchronize(), CaptureError);
    device->abandon_capture();
    device->abandon_capture();
    fake_runtime::fail("cudaStreamEndCapture", 0, cudaErrorStreamCaptureInvalidated);
    device->begin_capture();
    launch([&] { number = 2; });
    EXPECT_THROW(device->end_capture(), CaptureError);
    fake_runtime::fail("cudaGraphInstantiateWithFlags", 0, cudaErrorMemoryAllocation);  // it takes the GPU's memory
    device->begin_capture();
    launch([&] { number = 3; });
    EXPECT_THROW(device->end_capture(), CaptureError);
    device->copy_to_device(&from, &number, sizeof from);
    device->synchronize();
    EXPECT_EQ(number, 7);
    EXPECT_EQ(fake_runtime::graphs(), 0);
}

/// An event that a capture took would never be passed, and make CUDA refuse what waits for it later.
TEST_P(RuntimeDevice, ACaptureTakesNoEvents) {
    const auto event = device->make_event();
    const int from = 7;
    int to = 0, twice = 0;
    device->record(*event, CudaQueue::compute);
    device->begin_capture();
    launch([&] { twice = 2 * to; });
    for (const CudaQueue queue : {CudaQueue::compute, CudaQueue::uploads, CudaQueue::downloads, CudaQueue::exchanges}) {
        EXPECT_THROW(device->record(*event, queue), CaptureError);
        EXPECT_THROW(device->wait(queue, *event), CaptureError);
    }
    const std::unique_ptr<CudaGraph> graph = device->end_capture();
    device->wait(CudaQueue::uploads, *event);
    device->copy_to_device(&from, &to, sizeof from, CudaQueue::uploads);
    device->record(*event, CudaQueue::uploads);
    device->wait(CudaQueue::compute, *event);
    device->launch(*graph);
    device->synchronize();
    EXPECT_EQ(twice, 14);
}

/// That the runtime of these tests has CUDA's rules (cudaError_t in the reference, "Prohibited and Unhandled
/// Operations" in the programming guide).
TEST_P(RuntimeDevice, TheRuntimeRefusesWhatCudaRefusesAcrossACapture) {
    const auto stream = static_cast<cudaStream_t>(device->native());
    cudaStream_t other = nullptr;
    cudaEvent_t outside = nullptr, inside = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    for (cudaEvent_t* event : {&outside, &inside}) {
        ASSERT_EQ(cudaEventCreateWithFlags(event, cudaEventDisableTiming), cudaSuccess);
        ASSERT_EQ(cudaEventRecord(*event, other), cudaSuccess);
    }
    cudaGraph_t graph = nullptr;
    void* memory = nullptr;
    const auto captured = [&](const auto& call) {
        EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
        EXPECT_EQ(cudaEventRecord(inside, stream), cudaSuccess);
        const cudaError_t error = call();
        const cudaError_t end = cudaStreamEndCapture(stream, &graph);
        EXPECT_EQ(graph == nullptr, end != cudaSuccess);
        if (graph != nullptr) cudaGraphDestroy(graph);
        return std::pair{error, end};
    };
    using Errors = std::pair<cudaError_t, cudaError_t>;
    const auto spoilt = [](cudaError_t error) { return Errors{error, cudaErrorStreamCaptureInvalidated}; };
    EXPECT_EQ(captured([&] { return cudaStreamWaitEvent(stream, inside, 0); }), Errors(cudaSuccess, cudaSuccess));
    EXPECT_EQ(captured([&] { return cudaStreamWaitEvent(stream, outside, 0); }),
              spoilt(cudaErrorStreamCaptureIsolation));
    EXPECT_EQ(captured([&] { return cudaStreamWaitEvent(other, inside, 0); }),
              Errors(cudaSuccess, cudaErrorStreamCaptureUnjoined));
    EXPECT_EQ(captured([&] { return cudaEventQuery(outside); }), spoilt(cudaErrorStreamCaptureUnsupported));
    EXPECT_EQ(captured([&] { return cudaEventSynchronize(inside); }), spoilt(cudaErrorStreamCaptureUnsupported));
    EXPECT_EQ(captured([&] { return cudaStreamSynchronize(stream); }), spoilt(cudaErrorStreamCaptureUnsupported));
    EXPECT_EQ(captured([&] { return cudaHostAlloc(&memory, 1, 0); }), spoilt(cudaErrorStreamCaptureUnsupported));
    EXPECT_EQ(captured([&] {
                  cudaStreamWaitEvent(stream, outside, 0);
                  return cudaEventRecord(inside, stream);
              }),
              spoilt(cudaErrorStreamCaptureInvalidated));
    // The capture has ended.
    EXPECT_EQ(captured([] { return cudaSuccess; }), Errors(cudaSuccess, cudaSuccess));
    EXPECT_EQ(cudaStreamWaitEvent(other, inside, 0), cudaErrorCapturedEvent);
    EXPECT_EQ(cudaEventQuery(inside), cudaErrorCapturedEvent);
    EXPECT_EQ(cudaEventSynchronize(inside), cudaErrorCapturedEvent);
    EXPECT_EQ(cudaEventRecord(inside, stream), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(inside), cudaSuccess);
    cudaGetLastError();
    for (const cudaEvent_t event : {outside, inside}) cudaEventDestroy(event);
    cudaStreamSynchronize(other);
    cudaStreamDestroy(other);
}

/// That the runtime of these tests sees it: CUDA says nothing, and the work may use memory that is gone.
TEST_P(RuntimeDevice, ABusyStreamIsNotDestroyedInSilence) {
    for (const bool busy : {false, true}) {
        cudaStream_t stream = nullptr;
        ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        bool done = false;
        fake_runtime::enqueue(stream, [&] { done = true; });
        if (!busy) cudaStreamSynchronize(stream);
        const bool silent = done;
        cudaStreamDestroy(stream);
        EXPECT_EQ(fake_runtime::problem(), silent ? "" : "a stream is destroyed while it has work");
    }
    device.reset();
    fake_runtime::reset(static_cast<std::uint64_t>(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RuntimeDevice, testing::Range(0, 6));

}  // namespace runtime_device_test
}  // namespace headroom::kernels
