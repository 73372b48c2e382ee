#include <headroom/dist/nccl.hpp>

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
#include <headroom/memory/error.hpp>

namespace headroom::dist {

namespace {

using Clock = std::chrono::steady_clock;

class NcclGroup final : public Group {
  public:
    NcclGroup(std::shared_ptr<Group> hosts, const NcclApi& api, double patience)
        : Group(hosts->rank(), hosts->ranks()),
          hosts_(std::move(hosts)),
          api_(api),
          patience_(patience),
          exceptions_(std::uncaught_exceptions()) {}
    ~NcclGroup() override {
        if (!comm_) return;
        if (failed_ || std::uncaught_exceptions() != exceptions_) {  // the others may never come
            api_.comm_abort(comm_);
            return;
        }
        try {
            settle("ncclCommFinalize", api_.comm_finalize(comm_), deadline());
            check("ncclCommDestroy", api_.comm_destroy(comm_));
        } catch (const DeviceError&) {  // all that was asked of it is done
            api_.comm_abort(comm_);
        }
    }

  private:
    void do_exchange(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                     std::span<const Extent> receives) override {
        hosts_->exchange(send, sends, receive, receives);
    }

    void do_exchange_on(CudaStream& stream, const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                        std::span<const Extent> receives) override {
        CudaDevice& device = *stream.device;
        device.make_current();
        if (failed_) throw DeviceError(fmt::format("rank {}: NCCL has failed before", rank()));
        const auto extent = [](std::span<const Extent> of, int q) { return of[static_cast<std::size_t>(q)]; };
        const Extent given = extent(sends, rank()), taken = extent(receives, rank());
        if (given.bytes != taken.bytes)
            throw Error("group: a rank sends itself another number of bytes than it receives");
        failed_ = true;  // unless all of this succeeds
        if (!comm_) join();
        ask();
        if (given.bytes > 0 && send + given.offset != receive + taken.offset)
            device.copy(send + given.offset, receive + taken.offset, given.bytes, kernels::CudaQueue::exchanges);
        auto* const queue = static_cast<CUstream_st*>(device.native(kernels::CudaQueue::exchanges));
        check("ncclGroupStart", api_.group_start());
        for (int step = 1; step < ranks(); ++step) {
            const int to = (rank() + step) % ranks(), from = (rank() + ranks() - step) % ranks();
            if (const Extent& part = extent(receives, from); part.bytes > 0)
                check("ncclRecv", api_.recv(receive + part.offset, part.bytes, kNcclUint8, from, comm_, queue));
            if (const Extent& part = extent(sends, to); part.bytes > 0)
                check("ncclSend", api_.send(send + part.offset, part.bytes, kNcclUint8, to, comm_, queue));
        }
        settle("ncclGroupEnd", api_.group_end());
        failed_ = false;
    }

    /// All ranks, at their first exchange.
    void join() {
        NcclId id;
        if (rank() == 0) check("ncclGetUniqueId", api_.get_unique_id(&id));
        const std::string own(id.internal, rank() == 0 ? sizeof(id.internal) : 0);
        const std::string of_first = gather(*hosts_, own)[0];
        std::memcpy(id.internal, of_first.data(), sizeof(id.internal));
        NcclConfig config;
        const NcclResult begun = api_.comm_init_rank_config(&comm_, ranks(), id, rank(), &config);
        settle("ncclCommInitRankConfig", begun, deadline());
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
                throw DeviceError(fmt::format("rank {}: {}: not all of {} ranks have come within {:g} s", rank(), call,
                                              ranks(), patience_));
            }
            std::this_thread::sleep_for(std::chrono::microseconds(20));
            check(call, api_.comm_get_async_error(comm_, &result));
            check(call, result);
        }
    }
    void check(const char* call, NcclResult result) const {
        if (result == kNcclSuccess || result == kNcclInProgress) return;
        const char* const more = api_.get_last_error(comm_);
        throw DeviceError(fmt::format("rank {}: {} failed: {}{}{}", rank(), call, api_.get_error_string(result),
                                      more && *more ? "; " : "", more ? more : ""));
    }

    std::shared_ptr<Group> hosts_;
    NcclApi api_;
    double patience_;
    int exceptions_;  ///< that were on their way at the start
    NcclCommunicator* comm_ = nullptr;
    bool failed_ = false;
};

}  // namespace

std::shared_ptr<Group> over_nccl(std::shared_ptr<Group> hosts, const NcclOptions& options) {
    std::vector<std::string> libraries = options.libraries;
    if (libraries.empty()) {
        const char* const chosen = std::getenv("HEADROOM_NCCL");
        libraries = {chosen && *chosen ? chosen : "libnccl.so.2"};
    }
    return std::make_shared<NcclGroup>(std::move(hosts), load_nccl(libraries), options.patience);
}

}  // namespace headroom::dist
