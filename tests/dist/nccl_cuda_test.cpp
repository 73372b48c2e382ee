// NVIDIA's NCCL on a real GPU, with one rank: NCCL gives a GPU to one rank alone, so that one GPU has no second one.
#include <headroom/dist/nccl.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/group.hpp>
#include <headroom/dist/internal/nccl_api.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/memory/buffer.hpp>
#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::dist {
namespace nccl_cuda_test {

using kernels::CudaQueue;

constexpr std::size_t kBytes = std::size_t{32} << 20;

class NcclCuda : public testing::Test {
  protected:
    void SetUp() override {
        if (kernels::cuda_device_count() == 0 || kernels::cuda_is_emulated()) GTEST_SKIP() << "there is no GPU";
        try {
            group_ = over_nccl(std::make_shared<RehearsedGroup>(0, 1));
        } catch (const DeviceError& error) {
            GTEST_SKIP() << error.what();
        }
        device_ = kernels::open_cuda_device(0);
        memory_.emplace(device_->make_driver());
        sent_ = memory::Buffer::allocate(*memory_, kBytes, 0, {});
        received_ = memory::Buffer::allocate(*memory_, kBytes, 0, {});
        for (std::size_t i = 0; i < kBytes; ++i) bytes_[i] = static_cast<std::byte>(i * 7 + i / 251);
        device_->copy_to_device(bytes_.data(), sent_.data(), kBytes, CudaQueue::exchanges);
    }
    void TearDown() override { group_.reset(); }  // while the GPU's queue is there
    void expect_received() {
        device_->synchronize();
        std::vector<std::byte> there(kBytes);
        device_->copy_to_host(received_.data(), there.data(), kBytes);
        EXPECT_TRUE(there == bytes_);
    }
    std::size_t free_bytes() {
        device_->synchronize();
        return device_->make_driver()->free_bytes();
    }

    std::shared_ptr<NcclGroup> group_;
    std::unique_ptr<CudaDevice> device_;
    std::optional<memory::DeviceMemory> memory_;
    memory::Buffer sent_, received_;
    std::vector<std::byte> bytes_ = std::vector<std::byte>(kBytes);
};

TEST_F(NcclCuda, AGroupOfOneJoinsExchangesAndEnds) {
    kernels::CudaStream stream{.device = device_.get()};
    const Group::Extent all{0, kBytes};
    group_->all_to_all(stream, sent_.data(), {&all, 1}, received_.data(), {&all, 1});
    expect_received();
    EXPECT_EQ(group_->failure(), "");
}

TEST_F(NcclCuda, IsAbortedByAnotherThread) {
    kernels::CudaStream stream{.device = device_.get()};
    const Group::Extent all{0, kBytes};
    group_->all_to_all(stream, sent_.data(), {&all, 1}, received_.data(), {&all, 1});
    std::thread([&] { group_->abort(); }).join();
    EXPECT_EQ(group_->failure(), "");
    EXPECT_THROW(group_->all_to_all(stream, sent_.data(), {&all, 1}, received_.data(), {&all, 1}), DeviceError);
    expect_received();
}

/// What no plan has: said in the log.
TEST_F(NcclCuda, MovesBytesAndTakesMemory) {
    const NcclApi api = load_nccl();
    const auto settle = [&](NcclCommunicator* comm, NcclResult result) {
        while (result == kNcclInProgress) {
            std::this_thread::sleep_for(std::chrono::microseconds(20));
            ASSERT_EQ(api.comm_get_async_error(comm, &result), kNcclSuccess);
        }
        ASSERT_EQ(result, kNcclSuccess) << api.get_error_string(result) << "; " << api.get_last_error(comm);
    };
    const std::size_t before = free_bytes();
    NcclId id;
    NcclConfig config;
    NcclCommunicator* comm = nullptr;
    ASSERT_EQ(api.get_unique_id(&id), kNcclSuccess);
    const NcclResult begun = api.comm_init_rank_config(&comm, 1, id, 0, &config);
    ASSERT_NO_FATAL_FAILURE(settle(comm, begun));
    const std::size_t joined = free_bytes();
    auto* const queue = static_cast<CUstream_st*>(device_->native(CudaQueue::exchanges));
    ASSERT_EQ(api.group_start(), kNcclSuccess);
    EXPECT_EQ(api.recv(received_.data(), kBytes, kNcclUint8, 0, comm, queue), kNcclSuccess);
    EXPECT_EQ(api.send(sent_.data(), kBytes, kNcclUint8, 0, comm, queue), kNcclSuccess);
    ASSERT_NO_FATAL_FAILURE(settle(comm, api.group_end()));
    expect_received();
    const std::size_t exchanged = free_bytes();
    fmt::print("NCCL took {} bytes of the GPU's memory when one rank joined, and {} more for its first message\n",
               static_cast<long long>(before) - static_cast<long long>(joined),
               static_cast<long long>(joined) - static_cast<long long>(exchanged));
    ASSERT_NO_FATAL_FAILURE(settle(comm, api.comm_finalize(comm)));
    EXPECT_EQ(api.comm_destroy(comm), kNcclSuccess);
}

}  // namespace nccl_cuda_test
}  // namespace headroom::dist
