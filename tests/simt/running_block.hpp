#pragma once
// One block while it runs: its threads, its shared memory, and the scheduler that lets one of them go on at a time.
// Collectives meet here. The scheduler runs on the host's own stack; a CUDA thread that waits writes what it waits for
// into itself and suspends.
//
//     RunningBlock block(launch, x, y, z, seed, fibers);
//     block.run();                     // throws KernelError
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <headroom/tests/simt/arena.hpp>
#include <headroom/tests/simt/emulator.hpp>
#include <headroom/tests/simt/fiber.hpp>

namespace headroom::simt {

class RunningBlock;

/// What all blocks of a launch have in common.
struct Launch {
    kernels::device::LaunchShape shape;
    std::string kernel;
    std::uint64_t seed;
    const std::function<void(kernels::device::EmulatedThread&)>& body;
    void* begin_token;
    void* end_token;
};

/// Shared memory and ThreadSanitizer's tokens.
struct BlockMemory {
    explicit BlockMemory(const kernels::device::LaunchShape& shape);
    void* sync_token(unsigned phase) { return &tokens[phase]; }
    void* warp_token(unsigned warp, unsigned first_lane, unsigned phase) {
        return &tokens[2 + (warp * kernels::device::kWarp + first_lane) * 2 + phase];
    }
    Arena arena;
    std::unique_ptr<std::uint64_t[]> tokens;
};

class CudaThread final : public kernels::device::EmulatedThread {
  public:
    enum class State { ready, at_sync, at_collective, finished, failed };
    enum class Collective { none, warp_sync, ballot, shuffle, agree, multiply_add };

    void sync(kernels::device::Site site) override;
    void warp_sync(std::uint32_t mask, kernels::device::Site site) override;
    std::uint32_t ballot(std::uint32_t mask, bool vote, kernels::device::Site site) override;
    std::uint64_t shuffle(std::uint32_t mask, std::uint64_t bits, unsigned source_lane,
                          kernels::device::Site site) override;
    void agree(std::uint64_t first, std::uint64_t second, kernels::device::Site site) override;
    void multiply_add(const float* a, const float* b, float* c, kernels::device::Site site) override;
    void* shared(std::size_t bytes, kernels::device::Site site) override;
    void shared_access(const void* address, std::size_t bytes, Access access, kernels::device::Site site) override;
    void yield() override;
    [[noreturn]] void fail(const std::string& what, kernels::device::Site site) override;

    unsigned lane() const { return thread % kernels::device::kWarp; }
    bool waits_like(const CudaThread& other) const;
    void start(RunningBlock& block, Fiber& fiber);

    RunningBlock* block = nullptr;
    Fiber* fiber = nullptr;  // from the first step on
    State state = State::ready;
    Collective collective = Collective::none;
    kernels::device::Site site;  // of what it waits for, or where it failed
    std::uint32_t mask = 0;
    std::uint64_t given[2] = {}, result = 0;
    const float *a = nullptr, *b = nullptr;
    float* c = nullptr;
    unsigned regions = 0;
    std::string failure;

  private:
    void body();
    void meet(Collective what, std::uint32_t mask, kernels::device::Site site);
};

class RunningBlock {
  public:
    RunningBlock(const Launch& launch, std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint64_t seed,
                 std::vector<Fiber*> fibers);
    RunningBlock(const RunningBlock&) = delete;
    /// Threads that have not finished are abandoned.
    ~RunningBlock();

    void run();

    const Launch& launch() const { return launch_; }
    BlockMemory& memory() { return memory_; }
    unsigned sync_phase() const { return sync_phase_; }
    unsigned& warp_phase(unsigned warp, unsigned first_lane) {
        return warp_phases_[warp * kernels::device::kWarp + first_lane];
    }
    /// Kernel, block, and how to run it again.
    const std::string& context() const { return context_; }

  private:
    void begin(CudaThread& thread);
    void step(CudaThread& thread);
    CudaThread& draw();
    void make_ready(CudaThread& thread);
    void arrive_at_sync(CudaThread& thread);
    void arrive_at_collective(CudaThread& thread);
    [[noreturn]] void throw_failure(const CudaThread& thread) const;
    [[noreturn]] void throw_stuck() const;

    const Launch& launch_;
    BlockMemory memory_;
    std::string context_;
    std::mt19937_64 random_;
    /// Those that no thread is on: the next one to begin takes the last, which is still in the cache. ThreadSanitizer
    /// must not take two CUDA threads for one, so there each has its own.
    std::vector<Fiber*> fibers_;
    std::vector<CudaThread> threads_;
    std::vector<CudaThread*> ready_, ready_ahead_;
    unsigned ahead_;  ///< the warp that goes first whenever it can; none if there is no such warp
    unsigned at_sync_ = 0, finished_ = 0, sync_phase_ = 0;
    std::vector<unsigned> warp_phases_;
};

/// Gives every lane of a complete meeting its result. Null, or the lane that did what is not allowed, with `failure`
/// set.
CudaThread* complete(CudaThread* warp, std::uint32_t mask);

/// Who waits where, and who has returned; for the report of a block that can't go on.
std::string describe_waiting(const std::vector<CudaThread>& threads);

/// `file.cu:12`
std::string describe(const kernels::device::Site& site);

}  // namespace headroom::simt
