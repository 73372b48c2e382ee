#include <headroom/kernels/parallel.hpp>

#include <chrono>
#include <system_error>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <headroom/kernels/internal/thread_team.hpp>

namespace headroom::kernels {

namespace {

/// How long a thread looks out before it sleeps. Longer than kernels lie apart, and than waking a thread takes.
constexpr std::chrono::microseconds kLookout{50};

void relax() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

/// Returns once `number` is not `old`.
void wait_for_change(const std::atomic<std::uint32_t>& number, std::uint32_t old) {
    const auto end = std::chrono::steady_clock::now() + kLookout;
    do {
        for (int i = 0; i < 16; ++i) {
            if (number.load(std::memory_order_acquire) != old) return;
            relax();
        }
    } while (std::chrono::steady_clock::now() < end);
    number.wait(old, std::memory_order_acquire);
}

constexpr std::uint64_t job_of(std::uint32_t number, std::int64_t shares) {
    return static_cast<std::uint64_t>(number) << 32 | static_cast<std::uint64_t>(shares) << 16;
}
constexpr std::uint32_t shares_of(std::uint64_t job) { return static_cast<std::uint32_t>(job) >> 16; }
constexpr std::uint32_t claimed_of(std::uint64_t job) { return static_cast<std::uint32_t>(job) & 0xffff; }

}  // namespace

ThreadTeam::~ThreadTeam() {
    over_ = true;
    ++posted_;
    posted_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::start(std::size_t workers) {
    while (workers_.size() < workers && !refused_) {
        try {
            workers_.emplace_back([this] { serve(); });
        } catch (const std::system_error&) {
            refused_ = true;
        }
    }
}

void ThreadTeam::serve() {
    for (std::uint32_t seen = 0;;) {
        wait_for_change(posted_, seen);
        seen = posted_.load(std::memory_order_acquire);
        if (over_) return;
        const std::uint32_t done = claim();
        if (done > 0 && open_.fetch_sub(done, std::memory_order_acq_rel) == done) open_.notify_one();
    }
}

/// Does what others leave. The number of shares.
std::uint32_t ThreadTeam::claim() {
    std::uint32_t done = 0;
    std::uint64_t job = job_.load(std::memory_order_acquire);
    while (claimed_of(job) < shares_of(job)) {
        if (!job_.compare_exchange_weak(job, job + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
        work_(context_, claimed_of(job));  // `run` waits for it: these do not change meanwhile
        ++done;
        job = job_.load(std::memory_order_acquire);
    }
    return done;
}

void ThreadTeam::run(std::int64_t shares, Work work, const void* context) {
    if (running_) {
        for (std::int64_t i = 0; i < shares; ++i) work(context, i);
        return;
    }
    start(static_cast<std::size_t>(shares - 1));
    running_ = true;
    work_ = work;
    context_ = context;
    open_.store(static_cast<std::uint32_t>(shares), std::memory_order_relaxed);
    const std::uint32_t number = posted_.load(std::memory_order_relaxed) + 1;
    job_.store(job_of(number, shares), std::memory_order_release);
    posted_.store(number, std::memory_order_seq_cst);
    posted_.notify_all();
    const std::uint32_t done = claim();
    std::uint32_t open = open_.fetch_sub(done, std::memory_order_acq_rel) - done;
    for (; open > 0; open = open_.load(std::memory_order_acquire)) wait_for_change(open_, open);
    running_ = false;
}

void share_out(const CpuStream& stream, std::int64_t shares, void (*work)(const void*, std::int64_t),
               const void* context) {
    stream.state->get<ThreadTeam>().run(shares, work, context);
}

}  // namespace headroom::kernels
