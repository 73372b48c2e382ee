#include <exception>
#include <headroom/tests/simt/running_block.hpp>
#include <headroom/tests/simt/sanitizers.hpp>

#include <bit>
#include <cstring>

namespace headroom::simt {

namespace {

// Unwinds the CUDA thread's stack, down to body().
struct Fault {
    std::string what;
    kernels::device::Site site;
};

}  // namespace

// What runs here runs on a CUDA thread's fiber: it touches that thread's own state and leaves the rest to the
// scheduler.

void CudaThread::start(RunningBlock& running, Fiber& on) {
    block = &running;
    fiber = &on;
    fiber->start([](void* self) { static_cast<CudaThread*>(self)->body(); }, this);
}

void CudaThread::body() {
    sanitizers::acquire(block->launch().begin_token);
    try {
        block->launch().body(*this);
        state = State::finished;
    } catch (const Fault& fault) {
        failure = fault.what;
        site = fault.site;
        state = State::failed;
    } catch (const std::exception& error) {
        failure = error.what();
        state = State::failed;
    }
    sanitizers::release(block->launch().end_token);
}

void CudaThread::sync(kernels::device::Site where) {
    void* token = block->memory().sync_token(block->sync_phase());
    sanitizers::release(token);
    site = where;
    state = State::at_sync;
    fiber->suspend();
    sanitizers::acquire(token);
}

void CudaThread::meet(Collective what, std::uint32_t lanes, kernels::device::Site where) {
    if (!(lanes >> lane() & 1u)) fail("the mask of a warp's collective leaves out the lane that calls it", where);
    collective = what;
    mask = lanes;
    site = where;
    state = State::at_collective;
    fiber->suspend();
}

void CudaThread::warp_sync(std::uint32_t lanes, kernels::device::Site where) {
    const unsigned warp = thread / kernels::device::kWarp,
                   first = static_cast<unsigned>(std::countr_zero(lanes)) % kernels::device::kWarp;
    void* token = block->memory().warp_token(warp, first, block->warp_phase(warp, first));
    sanitizers::release(token);
    meet(Collective::warp_sync, lanes, where);
    sanitizers::acquire(token);
}

std::uint32_t CudaThread::ballot(std::uint32_t lanes, bool vote, kernels::device::Site where) {
    given[0] = vote;
    meet(Collective::ballot, lanes, where);
    return static_cast<std::uint32_t>(result);
}

std::uint64_t CudaThread::shuffle(std::uint32_t lanes, std::uint64_t bits, unsigned source_lane,
                                  kernels::device::Site where) {
    given[0] = bits;
    given[1] = source_lane;
    meet(Collective::shuffle, lanes, where);
    return result;
}

void CudaThread::agree(std::uint64_t first, std::uint64_t second, kernels::device::Site where) {
    given[0] = first;
    given[1] = second;
    meet(Collective::agree, ~0u, where);
}

void CudaThread::multiply_add(const float* left, const float* right, float* sum, kernels::device::Site where) {
    a = left;
    b = right;
    c = sum;
    meet(Collective::multiply_add, ~0u, where);
}

void* CudaThread::shared(std::size_t bytes, kernels::device::Site where) {
    const Arena::Answer answer = block->memory().arena.region(regions++, bytes);
    if (answer.problem) fail(answer.problem, where);
    return answer.address;
}

void CudaThread::shared_access(const void* address, std::size_t bytes, Access access, kernels::device::Site where) {
    if (!block->memory().arena.access(address, bytes, access))
        fail("reads shared memory that nobody has written", where);
}

void CudaThread::yield() { fiber->suspend(); }

void CudaThread::fail(const std::string& what, kernels::device::Site where) { throw Fault{what, where}; }

bool CudaThread::waits_like(const CudaThread& other) const {
    return state == State::at_collective && collective == other.collective && mask == other.mask &&
           site.line() == other.site.line() && site.column() == other.site.column() &&
           (site.file_name() == other.site.file_name() || std::strcmp(site.file_name(), other.site.file_name()) == 0);
}

}  // namespace headroom::simt
