#pragma once
// A GPU for tests of CUDA kernels: the machine's, or the emulator in builds for it. Arrays are made on the host as
// TestArray and copied whole, gaps included, so that what a kernel writes beside its elements is found.
//
//     using SoftmaxCuda = CudaTest;
//     TEST_F(SoftmaxCuda, ...) {
//         TestArray x(Dtype::f16, {3, 1025}), y(Dtype::f16, {3, 1025});
//         const View dx = gpu->put(x), dy = gpu->put(y);
//         kernels::softmax(gpu->stream, dx, dy);
//         gpu->get(dy, y);                            // waits
//     }
#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>

#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/buffer.hpp>
#include <headroom/memory/device_memory.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels::test {

class Gpu {
  public:
    explicit Gpu(int index = 0) : device(open_cuda_device(index)), memory(device->make_driver()) {
        stream.device = device.get();
    }

    /// A copy on the device with the same strides; lives as long as this.
    View put(const TestArray& x) {
        const std::size_t bytes = x.memory().size();
        std::byte* data = scratch(bytes);
        device->copy_to_device(x.memory().data(), data, bytes);
        View view = x.view();
        view.data = data + x.first();
        return view;
    }
    /// Brings back what `put` copied, gaps included.
    void get(const View& view, TestArray& x) {
        device->copy_to_host(static_cast<std::byte*>(view.data) - x.first(), x.begin_of_memory(), x.memory().size());
        if (auto error = device->take_index_error()) {
            ADD_FAILURE() << error->what << " " << error->value << " at " << error->position;
        }
    }
    /// Device memory, filled with NaN; lives as long as this. Null for 0 bytes.
    std::byte* scratch(std::size_t bytes) {
        if (bytes == 0) return nullptr;
        buffers_.push_back(memory::Buffer::allocate(memory, bytes, 0, {}));
        const std::vector<std::byte> nan(bytes, std::byte{0xff});
        device->copy_to_device(nan.data(), buffers_.back().data(), bytes);
        return buffers_.back().data();
    }

    /// Plans a call and runs it. Its scratch is NaN at first, as far as 64 KiB, and must not be overrun.
    template <class Plan, class... Call>
    void run(const Call&... call) {
        const Plan plan(stream, call...);
        const std::size_t bytes = plan.scratch();
        const std::vector<std::byte> nan(std::min<std::size_t>(bytes, 65536), std::byte{0xff}),
            guard(256, std::byte{0xab});
        if (workspace_.bytes() < bytes + guard.size())
            workspace_ = memory::Buffer::allocate(memory, bytes + guard.size(), 0, {});
        device->copy_to_device(nan.data(), workspace_.data(), nan.size());
        device->copy_to_device(guard.data(), workspace_.data() + bytes, guard.size());
        const std::int64_t waits = device->host_waits();
        plan.run(stream, workspace_.data());
        EXPECT_EQ(device->host_waits(), waits);
        std::vector<std::byte> after(guard.size());
        device->copy_to_host(workspace_.data() + bytes, after.data(), after.size());
        EXPECT_EQ(after, guard) << "more scratch than was said";
    }

    StreamState state;
    std::unique_ptr<CudaDevice> device;
    CudaStream stream{.threads = 1, .state = &state};
    memory::DeviceMemory memory;

  private:
    std::deque<memory::Buffer> buffers_;
    memory::Buffer workspace_;
};

/// The number of a GPU that differs from the first one in what results must not depend on. In the emulator it has
/// compute capability 7.5 (8.6 for bf16, which 7.5 lacks), more multiprocessors and less shared memory.
inline int another_gpu(Dtype dtype) {
    return cuda_is_emulated() ? (dtype == Dtype::bf16 ? 1 : 2) : cuda_device_count() - 1;
}

/// A test's fixture: skips where no GPU can be had.
class CudaTest : public ::testing::Test {
  protected:
    void SetUp() override {
        if (cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
        gpu = std::make_unique<Gpu>();
    }
    std::unique_ptr<Gpu> gpu;
};

}  // namespace headroom::kernels::test
