#include <headroom/dist/nccl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/dist/internal/nccl_api.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/buffer.hpp>
#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::dist {

namespace {

using Clock = std::chrono::steady_clock;
using kernels::CudaQueue;

constexpr const char* kNcclAddress = "NCCL_COMM_ID";
constexpr const char* kOwnDiffers = "group: a rank sends itself another number of bytes than it receives";

/// A communicator of NCCL, from its first exchange on. Once it has failed, so does everything.
class NcclLink {
  public:
    NcclLink(int rank, int ranks, const NcclApi& api, double patience)
        : rank_(rank), ranks_(ranks), api_(api), patience_(patience), exceptions_(std::uncaught_exceptions()) {}
    ~NcclLink() {
        if (!comm_) return;
        if (failed_ || std::uncaught_exceptions() != exceptions_) {  // the others may never come
            api_.comm_abort(comm_);
            return;
        }
        try {
            settle("ncclCommFinalize", api_.comm_finalize(comm_), deadline());
        } catch (const DeviceError&) {  // all that was asked of it is done
            api_.comm_abort(comm_);
            return;
        }
        api_.comm_destroy(comm_);
    }
    NcclLink(const NcclLink&) = delete;
    NcclLink& operator=(const NcclLink&) = delete;

    /// An id that all ranks must have.
    NcclId make_id() const {
        NcclId id;
        check("ncclGetUniqueId", api_.get_unique_id(&id));
        return id;
    }
    bool joined() const { return comm_ != nullptr; }
    /// All ranks, which wait for each other.
    template <class MakeId>
    void join(CudaDevice& device, const MakeId& id) {
        attempt(device, [&] {
            NcclConfig config;
            const NcclResult begun = api_.comm_init_rank_config(&comm_, ranks_, id(), rank_, &config);
            settle("ncclCommInitRankConfig", begun, deadline());
        });
    }
    /// See Group::exchange.
    void exchange(CudaDevice& device, const std::byte* send, std::span<const Group::Extent> sends, std::byte* receive,
                  std::span<const Group::Extent> receives) {
        const Group::Extent given = extent(sends, rank_), taken = extent(receives, rank_);
        if (given.bytes != taken.bytes) throw Error(kOwnDiffers);
        attempt(device, [&] {
            ask();
            if (given.bytes > 0 && send + given.offset != receive + taken.offset)
                device.copy(send + given.offset, receive + taken.offset, given.bytes, CudaQueue::exchanges);
            auto* const queue = static_cast<CUstream_st*>(device.native(CudaQueue::exchanges));
            check("ncclGroupStart", api_.group_start());
            try {
                queue_messages(queue, send, sends, receive, receives);
            } catch (...) {
                api_.group_end();  // or else what this thread calls from now on is of the group
                throw;
            }
            settle("ncclGroupEnd", api_.group_end());
        });
    }

  private:
    void queue_messages(CUstream_st* queue, const std::byte* send, std::span<const Group::Extent> sends,
                        std::byte* receive, std::span<const Group::Extent> receives) {
        for (int step = 1; step < ranks_; ++step) {
            const int to = (rank_ + step) % ranks_, from = (rank_ + ranks_ - step) % ranks_;
            if (const Group::Extent& part = extent(receives, from); part.bytes > 0)
                check("ncclRecv", api_.recv(receive + part.offset, part.bytes, kNcclUint8, from, comm_, queue));
            if (const Group::Extent& part = extent(sends, to); part.bytes > 0)
                check("ncclSend", api_.send(send + part.offset, part.bytes, kNcclUint8, to, comm_, queue));
        }
    }
    static Group::Extent extent(std::span<const Group::Extent> of, int rank) {
        return of[static_cast<std::size_t>(rank)];
    }
    template <class Work>
    void attempt(CudaDevice& device, const Work& work) {
        device.make_current();
        if (failed_) throw DeviceError(fmt::format("rank {}: NCCL has failed before", rank_));
        failed_ = true;  // unless all of this succeeds
        work();
        failed_ = false;
    }
    Clock::time_point deadline() const {
        return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(patience_));
    }

    /// What was queued earlier may have failed since.
    void ask() {
        NcclResult state = kNcclSuccess;
        check("ncclCommGetAsyncError", api_.comm_get_async_error(comm_, &state));
        check("an earlier exchange", state);
    }
    /// A call of a communicator that does not block goes on behind it, and none may follow before it has ended.
    void settle(const char* call, NcclResult result, Clock::time_point until = Clock::time_point::max()) {
        check(call, result);
        while (result == kNcclInProgress) {
            if (Clock::now() > until) {
                throw DeviceError(fmt::format("rank {}: {}: not all of {} ranks have come within {:g} s", rank_, call,
                                              ranks_, patience_));
            }
            std::this_thread::sleep_for(std::chrono::microseconds(20));
            check(call, api_.comm_get_async_error(comm_, &result));
            check(call, result);
        }
    }
    void check(const char* call, NcclResult result) const {
        if (result == kNcclSuccess || result == kNcclInProgress) return;
        const char* const more = api_.get_last_error(comm_);
        throw DeviceError(fmt::format("rank {}: {} failed: {}{}{}", rank_, call, api_.get_error_string(result),
                                      more && *more ? "; " : "", more ? more : ""));
    }

    int rank_, ranks_;
    NcclApi api_;
    double patience_;
    int exceptions_;  ///< that were on their way at the start
    NcclCommunicator* comm_ = nullptr;
    bool failed_ = false;
};

class NcclGroup final : public Group {
  public:
    NcclGroup(std::shared_ptr<Group> hosts, const NcclApi& api, double patience)
        : Group(hosts->rank(), hosts->ranks()), hosts_(std::move(hosts)), link_(rank(), ranks(), api, patience) {}

  private:
    void do_exchange(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                     std::span<const Extent> receives) override {
        hosts_->exchange(send, sends, receive, receives);
    }
    void do_exchange_on(CudaStream& stream, const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                        std::span<const Extent> receives) override {
        if (!link_.joined()) link_.join(*stream.device, [&] { return id_of_first(); });
        link_.exchange(*stream.device, send, sends, receive, receives);
    }
    NcclId id_of_first() {
        NcclId id;
        if (rank() == 0) id = link_.make_id();
        const std::string own(id.internal, rank() == 0 ? sizeof(id.internal) : 0);
        const std::string of_first = gather(*hosts_, own)[0];
        std::memcpy(id.internal, of_first.data(), sizeof(id.internal));
        return id;
    }

    std::shared_ptr<Group> hosts_;
    NcclLink link_;
};

/// What hosts say, by way of their GPUs: of a GPU's memory each peer has a window to and one from it.
class NcclHosts final : public Group {
  public:
    NcclHosts(const Rendezvous& meeting, int gpu, const NcclApi& api, double patience)
        : Group(meeting.rank, meeting.ranks),
          device_(kernels::open_cuda_device(gpu)),
          link_(rank(), ranks(), api, patience) {
        // The first rank's NCCL listens there, and the others' know where (NCCL_COMM_ID of its "Environment
        // Variables").
        setenv(kNcclAddress, meeting.address.c_str(), 1);
        try {
            link_.join(*device_, [&] { return link_.make_id(); });
        } catch (...) {
            unsetenv(kNcclAddress);
            throw;
        }
        unsetenv(kNcclAddress);  // another communicator needs another id
    }

  private:
    static constexpr std::size_t kWindows = std::size_t{1} << 20;

    void do_exchange(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                     std::span<const Extent> receives) override {
        const auto peers = static_cast<std::size_t>(ranks()), own = static_cast<std::size_t>(rank());
        if (sends[own].bytes != receives[own].bytes) throw Error(kOwnDiffers);
        if (sends[own].bytes > 0)
            std::memmove(receive + receives[own].offset, send + sends[own].offset, sends[own].bytes);
        const std::size_t window = kWindows / peers;
        std::size_t most = 0;
        for (std::size_t q = 0; q < peers; ++q) {
            if (q != own) most = std::max({most, sends[q].bytes, receives[q].bytes});
        }
        std::byte* const from = windows_.data();
        std::byte* const to = from + kWindows;
        for (std::size_t done = 0; done < most; done += window) {
            const auto now = [&](std::span<const Extent> extents) {
                std::vector<Extent> parts(peers);
                for (std::size_t q = 0; q < peers; ++q) {
                    if (q != own)
                        parts[q] = {q * window, std::min(window, extents[q].bytes - std::min(done, extents[q].bytes))};
                }
                return parts;
            };
            const std::vector<Extent> out = now(sends), in = now(receives);
            for (std::size_t q = 0; q < peers; ++q) {
                if (out[q].bytes > 0)
                    device_->copy_to_device(send + sends[q].offset + done, from + out[q].offset, out[q].bytes,
                                            CudaQueue::exchanges);
            }
            link_.exchange(*device_, from, out, to, in);
            device_->record(*arrived_, CudaQueue::exchanges);
            for (std::size_t q = 0; q < peers; ++q) {
                if (in[q].bytes > 0)
                    device_->copy_to_host(to + in[q].offset, receive + receives[q].offset + done, in[q].bytes,
                                          arrived_.get());
            }
        }
    }

    std::unique_ptr<CudaDevice> device_;
    memory::DeviceMemory memory_{device_->make_driver()};
    std::unique_ptr<kernels::CudaEvent> arrived_ = device_->make_event();
    memory::Buffer windows_ = memory::Buffer::allocate(memory_, 2 * kWindows, 0, {});
    NcclLink link_;
};

NcclApi load(const NcclOptions& options) {
    if (!options.libraries.empty()) return load_nccl(options.libraries);
    const char* const chosen = std::getenv("HEADROOM_NCCL");
    return load_nccl({chosen && *chosen ? chosen : "libnccl.so.2"});
}

}  // namespace

std::shared_ptr<Group> over_nccl(std::shared_ptr<Group> hosts, const NcclOptions& options) {
    return std::make_shared<NcclGroup>(std::move(hosts), load(options), options.patience);
}

std::shared_ptr<Group> hosts_over_nccl(const Rendezvous& meeting, int gpu, const NcclOptions& options) {
    return std::make_shared<NcclHosts>(meeting, gpu, load(options), options.patience);
}

}  // namespace headroom::dist
