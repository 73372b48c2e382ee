#pragma once
// The threads that share out a stream's work; the calling thread is one of them. Shares are claimed one after
// another: while the processor runs another program in a thread's place, the others do its part, and nobody waits
// for a thread that has claimed nothing. A thread without work looks out for some for a few microseconds, since the
// next kernel is near as a rule, and then sleeps: a thread that spins for longer takes the processor from those that
// it waits for.
//
//     ThreadTeam& team = stream.state->get<ThreadTeam>();
//     team.run(shares, work, context);   // work(context, i) for i in [0, shares), by as many threads
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace headroom::kernels {

class ThreadTeam {
  public:
    using Work = void (*)(const void* context, std::int64_t share);

    ThreadTeam() = default;
    ~ThreadTeam();
    ThreadTeam(const ThreadTeam&) = delete;
    ThreadTeam& operator=(const ThreadTeam&) = delete;

    /// Calls `work` once for each share, fewer than 65,536 of them, and returns when all calls have. `work` must not
    /// throw; where it calls this, its shares are done one after another. Starts the threads that are missing; those
    /// that the system refuses are done without.
    void run(std::int64_t shares, Work work, const void* context);

  private:
    void start(std::size_t workers);
    void serve();
    std::uint32_t claim();

    /// What is posted: a number that differs from the last one's, shares, shares that are claimed.
    std::atomic<std::uint64_t> job_{0};
    Work work_ = nullptr;
    const void* context_ = nullptr;
    bool running_ = false;
    alignas(64) std::atomic<std::uint32_t> posted_{0};  ///< what workers wait for: changes with each job
    alignas(64) std::atomic<std::uint32_t> open_{0};    ///< what `run` waits for: shares that are not done
    std::atomic<bool> over_{false};
    std::vector<std::thread> workers_;
    bool refused_ = false;
};

}  // namespace headroom::kernels
