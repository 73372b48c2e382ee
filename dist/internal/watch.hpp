#pragma once
// Watches the ranks of a job. A rank that waits for another one, in MPI, in an NCCL kernel or on a socket, can't check
// on it at the same time. So a thread in each process reports the progress of its main thread (memory/progress.hpp) to
// rank 0 over its own connection. Rank 0 decides (watch_verdict.hpp), and a verdict ends all processes. JoinDeadline
// limits the time to join.
//
//     const JoinDeadline deadline(rank, "4 ranks", /*seconds=*/300);      // MPI starts
//     std::string why_not;
//     std::shared_ptr<Watch> watch = Watch::begin(hosts, "", /*patience=*/600, why_not);
//     options.group = watch->look_after(over_nccl(hosts));
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <headroom/core/group.hpp>
#include <headroom/dist/internal/sockets.hpp>
#include <headroom/dist/internal/watch_verdict.hpp>
#include <headroom/dist/nccl.hpp>
#include <headroom/memory/progress.hpp>

struct pollfd;  // <poll.h>

namespace headroom::dist {

/// Ends this process with a one-line message unless it is destroyed within `seconds`. Time during which the process is
/// suspended does not count.
class JoinDeadline {
  public:
    /// `ranks` is for the message, such as "4 ranks". Rank 0 reports first, and its end ends the others.
    JoinDeadline(int rank, const std::string& ranks, double seconds);
    ~JoinDeadline();
    JoinDeadline(const JoinDeadline&) = delete;
    JoinDeadline& operator=(const JoinDeadline&) = delete;

  private:
    std::mutex mutex_;
    std::condition_variable over_;
    bool joined_ = false;
    std::thread thread_;
};

class Watch : public std::enable_shared_from_this<Watch> {
  public:
    /// Starts watching the calling thread; all ranks of `hosts` must call it. `first_host`: the host of rank 0; with ""
    /// rank 0 announces all addresses of its machine. `patience`: seconds that ranks wait for one without progress. If
    /// a rank can't reach rank 0 within `meeting` seconds, all ranks get the reason in `why_not`; they then do not
    /// watch each other, only the groups given to `look_after`.
    static std::shared_ptr<Watch> begin(Group& hosts, const std::string& first_host, double patience,
                                        std::string& why_not, double meeting = 10);
    /// Reports that this rank has finished, unless an exception is in flight.
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    /// Returns the group and polls it for NCCL failures about every second until its last owner releases it. A failure
    /// ends this process. The group is aborted before the process ends for any reason.
    std::shared_ptr<Group> look_after(std::shared_ptr<NcclGroup> group);

  private:
    /// `connections`: on rank 0, one to each other rank, by rank; on other ranks, one to rank 0; none if ranks do not
    /// watch each other.
    Watch(int rank, std::vector<Socket> connections, double patience);

    void run();
    void watch_others();
    void hear(WatchedRanks& ranks, int rank);
    void report_to_first();
    /// Sends beats until this rank or rank 0 leaves. Errors: PeerGone.
    void keep_reporting();
    /// Waits until data arrives, a tick has passed, or this rank leaves.
    std::vector<pollfd> wait() const;
    Beat beat() const;
    void look_after_groups();
    /// Sends a last frame to all and lets them close first: closing a connection with unread data would lose the frame.
    void part(std::string_view frame);
    [[noreturn]] void end(const std::string& line);

    const memory::Progress& main_;
    const std::atomic<std::uint64_t>& exchanges_;  ///< exchanges of the same thread
    int rank_;
    std::vector<Socket> connections_;
    double patience_, tick_;
    int exceptions_;  ///< exceptions in flight at the start
    WatchedTime time_;
    std::mutex mutex_;
    std::vector<NcclGroup*> groups_;         ///< live groups
    std::optional<Deadline> failing_since_;  ///< since when a group has been failing
    std::atomic<bool> leaving_ = false;
    bool in_order_ = true;  ///< read once `leaving_` is true
    Descriptor wake_;       ///< an eventfd that signals it
    std::thread thread_;
};

}  // namespace headroom::dist
