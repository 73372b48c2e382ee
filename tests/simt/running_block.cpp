#include <headroom/tests/simt/running_block.hpp>

#include <bit>
#include <utility>
#include <fmt/format.h>
#include <headroom/tests/simt/sanitizers.hpp>

namespace headroom::simt {

BlockMemory::BlockMemory(const kernels::device::LaunchShape& shape)
    : arena(shape.shared_bytes), tokens(std::make_unique<std::uint64_t[]>(2 + shape.threads * 2)) {}

RunningBlock::RunningBlock(const Launch& launch, std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint64_t seed,
                           std::vector<Fiber*> fibers)
    : launch_(launch),
      memory_(launch.shape),
      context_(fmt::format("{}, block ({}, {}, {}), HEADROOM_TEST_SEED={}", launch.kernel, x, y, z, launch.seed)),
      random_(seed),
      fibers_(std::move(fibers)),
      threads_(launch.shape.threads),
      ahead_(static_cast<unsigned>(random_() %
                                   (2 * ((threads_.size() + kernels::device::kWarp - 1) / kernels::device::kWarp)))),
      warp_phases_(launch.shape.threads, 0) {
    ready_.reserve(threads_.size());
    for (unsigned i = 0; i < threads_.size(); ++i) {
        CudaThread& thread = threads_[i];
        thread.thread = i;
        thread.threads = launch.shape.threads;
        thread.x = x, thread.y = y, thread.z = z;
        thread.grid_x = launch.shape.x, thread.grid_y = launch.shape.y, thread.grid_z = launch.shape.z;
        make_ready(thread);
    }
}

RunningBlock::~RunningBlock() {
    if (finished_ == threads_.size()) return;
    for (CudaThread& thread : threads_)
        if (thread.fiber) thread.fiber->abandon();
    sanitizers::acquire(launch_.end_token);  // memory_ goes now
}

void RunningBlock::run() {
    while (!ready_.empty() || !ready_ahead_.empty()) step(draw());
    if (finished_ != threads_.size()) throw_stuck();
}

CudaThread& RunningBlock::draw() {
    std::vector<CudaThread*>& from = ready_ahead_.empty() ? ready_ : ready_ahead_;
    const std::size_t drawn = random_() % from.size();
    CudaThread* thread = from[drawn];
    from[drawn] = from.back();
    from.pop_back();
    return *thread;
}

void RunningBlock::make_ready(CudaThread& thread) {
    (thread.thread / kernels::device::kWarp == ahead_ ? ready_ahead_ : ready_).push_back(&thread);
}

void RunningBlock::begin(CudaThread& thread) {
    Fiber& fiber = *fibers_.back();
    fibers_.pop_back();
    if (sanitizers::kRaces)
        fiber.name(fmt::format("block ({}, {}, {}) thread {}", thread.x, thread.y, thread.z, thread.thread).c_str());
    thread.start(*this, fiber);
}

void RunningBlock::step(CudaThread& thread) {
    if (!thread.fiber) begin(thread);
    thread.state = CudaThread::State::ready;
    thread.fiber->resume();
    switch (thread.state) {
        case CudaThread::State::ready:
            ready_.push_back(&thread);  // also of the warp ahead, which may be waiting for another's atomic
            break;
        case CudaThread::State::at_sync:
            arrive_at_sync(thread);
            break;
        case CudaThread::State::at_collective:
            arrive_at_collective(thread);
            break;
        case CudaThread::State::finished:
            ++finished_;
            if (!sanitizers::kRaces) fibers_.push_back(thread.fiber);
            break;
        case CudaThread::State::failed:
            throw_failure(thread);
    }
}

void RunningBlock::arrive_at_sync(CudaThread& thread) {
    if (++at_sync_ != threads_.size()) return;
    for (const CudaThread& other : threads_)
        if (other.site.line() != thread.site.line() || other.site.column() != thread.site.column()) throw_stuck();
    at_sync_ = 0;
    sync_phase_ ^= 1;
    for (CudaThread& other : threads_) make_ready(other);
}

void RunningBlock::arrive_at_collective(CudaThread& thread) {
    CudaThread* warp = &threads_[thread.thread - thread.lane()];
    for (unsigned lane = 0; lane < kernels::device::kWarp; ++lane)
        if (thread.mask >> lane & 1u && !warp[lane].waits_like(thread)) return;
    if (const CudaThread* guilty = complete(warp, thread.mask)) throw_failure(*guilty);
    if (thread.collective == CudaThread::Collective::warp_sync)
        warp_phase(thread.thread / kernels::device::kWarp, static_cast<unsigned>(std::countr_zero(thread.mask))) ^= 1;
    for (unsigned lane = 0; lane < kernels::device::kWarp; ++lane) {
        if (!(thread.mask >> lane & 1u)) continue;
        warp[lane].state = CudaThread::State::ready;  // no longer part of this meeting
        make_ready(warp[lane]);
    }
}

void RunningBlock::throw_failure(const CudaThread& thread) const {
    sanitizers::acquire(launch_.end_token);  // the text is the thread's
    throw KernelError(
        fmt::format("thread {} at {}: {} ({})", thread.thread, describe(thread.site), thread.failure, context_));
}

void RunningBlock::throw_stuck() const {
    throw KernelError(fmt::format("divergent: {} ({})", describe_waiting(threads_), context_));
}

}  // namespace headroom::simt
