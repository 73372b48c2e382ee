#pragma once
// The watch over the ranks of a job. A rank that waits for another one, in MPI, in a kernel of NCCL's or for a socket,
// can't look after that one itself. So each process has a thread that tells rank 0 how far its main thread has come
// (memory/progress.hpp), over a connection of its own; rank 0 decides (watch_verdict.hpp), and a verdict ends all
// processes. Beginning is bounded, too: JoinDeadline.
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

/// Ends this process with one line unless it is destroyed before so many seconds have passed. Time that the process is
/// suspended for does not count.
class JoinDeadline {
  public:
    /// `ranks`: for the line, such as "4 ranks". Rank 0 is the first to speak; its end is that of the others.
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
    /// Begins to watch the calling thread, on each of the `hosts`, which all call it. `first_host`: where rank 0 is
    /// reached; "" lets rank 0 name all addresses of its machine. `patience`: seconds that ranks wait for one that does
    /// not move. If a rank can't reach rank 0 within `meeting` seconds, all have the reason in `why_not`, and no watch
    /// over each other, only over what each looks after.
    static std::shared_ptr<Watch> begin(Group& hosts, const std::string& first_host, double patience,
                                        std::string& why_not, double meeting = 10);
    /// Tells the others that this rank has finished, unless an error is on its way.
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    /// The group, which NCCL is asked about every second or so, until nobody has it any more: a failure ends this
    /// process. It is aborted before the process ends, for whatever reason.
    std::shared_ptr<Group> look_after(std::shared_ptr<NcclGroup> group);

  private:
    /// `connections`: rank 0 has one to each other rank, by rank, and another rank one to rank 0; none without a watch
    /// over each other.
    Watch(int rank, std::vector<Socket> connections, double patience);

    void run();
    void watch_others();
    void hear(WatchedRanks& ranks, int rank);
    void report_to_first();
    /// Beats, until this rank or rank 0 leaves. Errors: PeerGone.
    void keep_reporting();
    /// Until something comes, a tick has passed, or this rank leaves.
    std::vector<pollfd> wait() const;
    Beat beat() const;
    void look_after_groups();
    /// Says it to all, and lets them close their connections first: to close one of which something is unread would
    /// lose what was said last.
    void part(std::string_view frame);
    [[noreturn]] void end(const std::string& line);

    const memory::Progress& main_;
    const std::atomic<std::uint64_t>& exchanges_;  ///< of the same thread
    int rank_;
    std::vector<Socket> connections_;
    double patience_, tick_;
    int exceptions_;  ///< that were on their way at the start
    WatchedTime time_;
    std::mutex mutex_;
    std::vector<NcclGroup*> groups_;         ///< those that live
    std::optional<Deadline> failing_since_;  ///< a group fails
    std::atomic<bool> leaving_ = false;
    bool in_order_ = true;  ///< read once `leaving_` is true
    Descriptor wake_;       ///< an eventfd that says so
    std::thread thread_;
};

}  // namespace headroom::dist
