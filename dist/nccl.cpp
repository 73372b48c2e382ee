#include <headroom/dist/nccl.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/dist/internal/nccl_api.hpp>
#include <headroom/dist/internal/sockets.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::dist {

namespace {

using kernels::CudaQueue;

/// A communicator of NCCL, from its first exchange on. Once it has failed, so does everything.
class NcclLink {
  public:
    NcclLink(int rank, int ranks, const NcclApi& api, double patience)
        : rank_(rank), ranks_(ranks), api_(api), patience_(patience), exceptions_(std::uncaught_exceptions()) {}
    ~NcclLink() {
        const bool others_come = !failed_ && std::uncaught_exceptions() == exceptions_;
        const bool in_order = comm_ && others_come && finalized();
        const std::lock_guard lock(life_);
        if (NcclCommunicator* const comm = comm_.exchange(nullptr))
            (in_order ? api_.comm_destroy : api_.comm_abort)(comm);
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
            NcclCommunicator* comm = nullptr;
            const NcclResult begun = api_.comm_init_rank_config(&comm, ranks_, id(), rank_, &config);
            comm_ = comm;
            settle("ncclCommInitRankConfig", begun, within(patience_));
        });
    }
    /// See Group::exchange.
    void exchange(CudaDevice& device, const std::byte* send, std::span<const Group::Extent> sends, std::byte* receive,
                  std::span<const Group::Extent> receives) {
        const Group::Extent given = extent(sends, rank_), taken = extent(receives, rank_);
        if (given.bytes != taken.bytes)
            throw Error("group: a rank sends itself a different number of bytes than it receives");
        attempt(device, [&] {
            check("an earlier exchange", state("ncclCommGetAsyncError"));  // which may have failed since
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

    // See NcclGroup. NCCL may be asked for errors and aborted while another thread is in a call of the communicator.
    std::string failure() {
        try {
            if (comm_) check("an earlier exchange", state("ncclCommGetAsyncError"));
        } catch (const DeviceError& error) {
            return aborted_ ? "" : error.what();
        }
        return "";
    }
    void abort() {
        const std::lock_guard lock(life_);
        aborted_ = true;
        if (NcclCommunicator* const comm = comm_.exchange(nullptr)) api_.comm_abort(comm);
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
    /// All that was asked for is done by then, in any case.
    bool finalized() {
        try {
            settle("ncclCommFinalize", api_.comm_finalize(comm_), within(patience_));
        } catch (const DeviceError&) {
            return false;
        }
        return true;
    }
    static Group::Extent extent(std::span<const Group::Extent> of, int rank) {
        return of[static_cast<std::size_t>(rank)];
    }
    template <class Work>
    void attempt(CudaDevice& device, const Work& work) {
        device.make_current();
        check_not_aborted();
        if (failed_) throw DeviceError(fmt::format("rank {}: NCCL has failed before", rank_));
        failed_ = true;  // unless all of this succeeds
        work();
        failed_ = false;
    }

    /// Of the communicator's last call, and of exchanges.
    NcclResult state(const char* call) {
        NcclResult result = kNcclSuccess;
        const std::lock_guard lock(life_);
        check_not_aborted();
        check(call, api_.comm_get_async_error(comm_, &result));
        return result;
    }
    void check_not_aborted() const {
        if (aborted_) throw DeviceError(fmt::format("rank {}: NCCL was aborted", rank_));
    }
    /// A call of a communicator that does not block goes on behind it, and none may follow before it has ended: it has
    /// a deadline, or `abort` ends it.
    void settle(const char* call, NcclResult result, Deadline until = kNoDeadline) {
        check(call, result);
        while (result == kNcclInProgress) {
            if (Deadline::clock::now() > until) {
                throw DeviceError(fmt::format("rank {}: {}: not all of {} ranks joined within {:g} s", rank_, call,
                                              ranks_, patience_));
            }
            std::this_thread::sleep_for(std::chrono::microseconds(20));
            result = state(call);
            check(call, result);
        }
    }
    void check(const char* call, NcclResult result) const {
        if (result == kNcclSuccess || result == kNcclInProgress) return;
        check_not_aborted();
        const char* const more = api_.get_last_error(comm_);
        throw DeviceError(fmt::format("rank {}: {} failed: {}{}{}", rank_, call, api_.get_error_string(result),
                                      more && *more ? "; " : "", more ? more : ""));
    }

    int rank_, ranks_;
    NcclApi api_;
    double patience_;
    int exceptions_;   ///< that were on their way at the start
    std::mutex life_;  ///< held while another thread uses the communicator, and while it ends
    std::atomic<NcclCommunicator*> comm_ = nullptr;
    std::atomic<bool> aborted_ = false;
    bool failed_ = false;
};

class LinkedGroup final : public NcclGroup {
  public:
    LinkedGroup(std::shared_ptr<Group> hosts, const NcclApi& api, double patience)
        : NcclGroup(hosts->rank(), hosts->ranks()), hosts_(std::move(hosts)), link_(rank(), ranks(), api, patience) {}

    std::string failure() override { return link_.failure(); }
    void abort() override { link_.abort(); }

  private:
    void do_all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                       std::span<const Extent> receives) override {
        hosts_->all_to_all(send, sends, receive, receives);
    }
    void do_all_to_all_on(CudaStream& stream, const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                          std::span<const Extent> receives) override {
        if (!link_.joined()) link_.join(*stream.device, [&] { return id_of_first(); });
        link_.exchange(*stream.device, send, sends, receive, receives);
    }
    NcclId id_of_first() {
        NcclId id;
        if (rank() == 0) id = link_.make_id();
        const std::string own(id.internal, rank() == 0 ? sizeof(id.internal) : 0);
        const std::string of_first = all_gather(*hosts_, own)[0];
        std::memcpy(id.internal, of_first.data(), sizeof(id.internal));
        return id;
    }

    std::shared_ptr<Group> hosts_;
    NcclLink link_;
};

}  // namespace

std::shared_ptr<NcclGroup> over_nccl(std::shared_ptr<Group> hosts, const NcclOptions& options) {
    return std::make_shared<LinkedGroup>(std::move(hosts), load_nccl(options.libraries), options.patience);
}

}  // namespace headroom::dist
