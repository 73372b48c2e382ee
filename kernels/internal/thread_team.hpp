#pragma once
// The threads that process a stream's work, the calling thread included. Shares are claimed one at a time: if the
// processor runs another program instead of a thread, the others take over its part, and nobody waits for a thread that
// has claimed nothing. An idle thread spins for a few microseconds, because the next kernel is usually close, and then
// sleeps: a thread that spins longer takes the processor from the threads that it waits for.
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

    /// Calls `work` once for each share, fewer than 65,536, and returns when all calls have. `work` must not throw; if
    /// it calls this, the inner shares run one after another. Starts missing threads, and goes on without those that
    /// the system refuses.
    void run(std::int64_t shares, Work work, const void* context);

  private:
    void start(std::size_t workers);
    void serve();
    std::uint32_t claim();

    /// The posted job: a number that differs from the previous job's, the shares, and the claimed shares.
    std::atomic<std::uint64_t> job_{0};
    Work work_ = nullptr;
    const void* context_ = nullptr;
    bool running_ = false;
    alignas(64) std::atomic<std::uint32_t> posted_{0};  ///< workers wait for it: changes with each job
    alignas(64) std::atomic<std::uint32_t> open_{0};    ///< `run` waits for it: unfinished shares
    std::atomic<bool> over_{false};
    std::vector<std::thread> workers_;
    bool refused_ = false;
};

}  // namespace headroom::kernels
