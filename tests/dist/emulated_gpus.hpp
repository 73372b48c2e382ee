#pragma once
// Ranks as threads with an emulated GPU each, over the NCCL of tests/dist/fake_nccl or through their hosts.
//
//     const auto all = test::on_gpus(3, [](Context& context) { return train(context); });    // by rank
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/group.hpp>
#include <headroom/dist/nccl.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/tests/data/any_order.hpp>
#include <headroom/tests/simt/gpu/emulated_queues.hpp>

namespace headroom::test {

using kernels::EmulatedOrder;

inline const dist::NcclOptions kFake{.patience = 60, .libraries = {HEADROOM_FAKE_NCCL}};

/// The bytes of GPUs, by way of the host: the engine of processes on CPUs.
class ThroughHost final : public Group {
  public:
    explicit ThroughHost(std::shared_ptr<Group> hosts)
        : Group(hosts->rank(), hosts->ranks()), hosts_(std::move(hosts)) {}

  private:
    static std::size_t end(std::span<const Extent> extents) {
        std::size_t last = 0;
        for (const Extent& extent : extents) last = std::max(last, extent.offset + extent.bytes);
        return last;
    }
    void do_all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                       std::span<const Extent> receives) override {
        hosts_->all_to_all(send, sends, receive, receives);
    }
    void do_all_to_all_on(CudaStream& stream, const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                          std::span<const Extent> receives) override {
        std::vector<std::byte> out(end(sends)), in(end(receives));
        stream.device->copy_to_host(send, out.data(), out.size());
        hosts_->all_to_all(out.data(), sends, in.data(), receives);
        for (const Extent& extent : receives)
            stream.device->copy_to_device(in.data() + extent.offset, receive + extent.offset, extent.bytes);
    }

    std::shared_ptr<Group> hosts_;
};

/// A GPU works while its host waits for the others; the emulator works when its own host waits for it.
class WorkingMeanwhile final : public Group {
  public:
    explicit WorkingMeanwhile(std::shared_ptr<Group> hosts)
        : Group(hosts->rank(), hosts->ranks()), hosts_(std::move(hosts)) {}
    CudaDevice* gpu = nullptr;

  private:
    void do_all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                       std::span<const Extent> receives) override {
        if (gpu) gpu->synchronize();
        hosts_->all_to_all(send, sends, receive, receives);
    }

    std::shared_ptr<Group> hosts_;
};

/// Aborts NCCL when it has failed, as a program's watch does: a rank would wait for ever for one that has ended.
class Aborting {
  public:
    explicit Aborting(std::shared_ptr<dist::NcclGroup> group)
        : thread_([this, group = std::move(group)] {
              while (!over_ && group->failure().empty()) std::this_thread::sleep_for(std::chrono::microseconds(200));
              if (!over_) group->abort();
          }) {}
    ~Aborting() {
        over_ = true;
        thread_.join();
    }
    Aborting(const Aborting&) = delete;
    Aborting& operator=(const Aborting&) = delete;

  private:
    std::atomic<bool> over_ = false;
    std::thread thread_;
};

enum class Engine { nccl, host };

/// Kernels when they are waited for, but where a sanitizer takes what the host has freed meanwhile for an error.
inline constexpr EmulatedOrder kLate = kFreedWhileQueued ? EmulatedOrder::copies_first : EmulatedOrder::at_once;
inline constexpr EmulatedOrder kOrders[] = {EmulatedOrder::at_once, kLate, EmulatedOrder::kernels_first};

/// `work` in each of several ranks, by rank; they have GPUs of two kinds.
template <class Work>
auto on_gpus(int ranks, const Work& work, Engine engine = Engine::nccl, EmulatedOrder order = EmulatedOrder::at_once) {
    std::vector<decltype(work(std::declval<Context&>()))> all(static_cast<std::size_t>(ranks));
    dist::run_ranks(ranks, [&](const std::shared_ptr<Group>& hosts) {
        const auto working = std::make_shared<WorkingMeanwhile>(hosts);
        std::shared_ptr<Group> group = std::make_shared<ThroughHost>(hosts);
        if (engine == Engine::nccl) group = dist::over_nccl(working, kFake);
        Context context = Context::cuda(hosts->rank() % kernels::cuda_device_count(), {.seed = 7, .group = group});
        working->gpu = context.gpu();
        dynamic_cast<kernels::EmulatedControls&>(*context.gpu()).set_order(order);
        all[static_cast<std::size_t>(hosts->rank())] = work(context);
    });
    return all;
}

}  // namespace headroom::test
