// What single calls cost when the allocator has a block: medians and 99th percentiles of allocate and of free, each
// call timed by itself (see call_timer.hpp) with accounting, lock and limit on. `timer_ns` is what was subtracted from
// each. The first number is that of other live blocks, the second says whether the history is kept. The time per
// iteration that the library prints includes the timer's; don't use it.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "call_timer.hpp"
#include "heap.hpp"

namespace {

using namespace headroom;
using namespace headroom::bench;

/// Times the calls of one benchmark.
class Calls {
  public:
    explicit Calls(benchmark::State& state)
        : heap(static_cast<std::size_t>(state.range(0)),
               {.history = state.range(1) != 0 ? std::size_t{1'000'000} : std::size_t{0}}),
          state_(state) {
        allocates_.reserve(kSamples);
        frees_.reserve(kSamples);
    }

    memory::Block* allocate(std::size_t bytes) {
        memory::Block* block = nullptr;
        keep(allocates_, timer_.ticks([&] { block = heap.memory.allocate(bytes, 0, kTag).handle; }));
        return block;
    }
    void free(memory::Block* block) {
        keep(frees_, timer_.ticks([&] { heap.memory.deallocate(block); }));
    }
    ~Calls() {
        state_.counters["allocate_p50_ns"] = timer_.nanoseconds(allocates_, 0.5);
        state_.counters["allocate_p99_ns"] = timer_.nanoseconds(allocates_, 0.99);
        state_.counters["free_p50_ns"] = timer_.nanoseconds(frees_, 0.5);
        state_.counters["free_p99_ns"] = timer_.nanoseconds(frees_, 0.99);
        state_.counters["timer_ns"] = timer_.own_nanoseconds();
        state_.counters["resolution_ns"] = timer_.resolution_nanoseconds();
    }
    Calls(const Calls&) = delete;
    Calls& operator=(const Calls&) = delete;

    Heap heap;

  private:
    static constexpr std::size_t kSamples = 1'000'000;
    /// The first ones: memory for more would be the next thing to be measured.
    static void keep(std::vector<std::uint32_t>& samples, std::uint32_t ticks) {
        if (samples.size() < kSamples) samples.push_back(ticks);
    }

    benchmark::State& state_;
    CallTimer timer_;
    std::vector<std::uint32_t> allocates_;
    std::vector<std::uint32_t> frees_;
};

void sizes_and_history(benchmark::internal::Benchmark* benchmark) {
    benchmark->ArgNames({"live", "history"})->ArgsProduct({{1'000, 100'000}, {0, 1}});
}

/// The same block again and again.
void hit_calls(benchmark::State& state) {
    Calls calls(state);
    for (auto _ : state) calls.free(calls.allocate(4096));
}
BENCHMARK(hit_calls)->Apply(sizes_and_history);

/// The same, as large as an activation.
void hit_large_calls(benchmark::State& state) {
    Calls calls(state);
    for (auto _ : state) calls.free(calls.allocate(std::size_t{6} << 20));
}
BENCHMARK(hit_large_calls)->Apply(sizes_and_history);

/// A random one of the live blocks goes, one of another size comes.
void replace_calls(benchmark::State& state) {
    Calls calls(state);
    const auto count = static_cast<std::uint32_t>(calls.heap.blocks.size());
    for (auto _ : state) {
        memory::Block*& block = calls.heap.blocks[calls.heap.random() % count];
        calls.free(block);
        block = calls.allocate(some_size(calls.heap.random));
    }
}
BENCHMARK(replace_calls)->Apply(sizes_and_history);

/// As a training step: blocks come, then all go; the last one first, or the first one first.
void burst_calls(benchmark::State& state, bool last_first, const std::vector<std::size_t>& sizes) {
    Calls calls(state);
    const std::size_t count = sizes.size();
    std::vector<memory::Block*> blocks(count);
    while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(count))) {
        for (std::size_t i = 0; i < count; ++i) blocks[i] = calls.allocate(sizes[i]);
        for (std::size_t i = 0; i < count; ++i) calls.free(blocks[last_first ? count - 1 - i : i]);
    }
}

std::vector<std::size_t> small_sizes() {
    std::mt19937 random(2);
    std::vector<std::size_t> sizes(256);
    for (std::size_t& size : sizes) size = some_size(random);
    return sizes;
}

/// Of what GPT-2's blocks keep for 2 x 1024 tokens.
std::vector<std::size_t> large_sizes() {
    constexpr std::size_t kUnit = std::size_t{2} * 1024 * 768 * 4;
    std::vector<std::size_t> sizes;
    for (int layer = 0; layer < 12; ++layer) {
        sizes.insert(sizes.end(), {kUnit, 16384, 3 * kUnit, kUnit, 98304, kUnit, kUnit, 16384, 4 * kUnit, 4 * kUnit});
    }
    return sizes;
}
BENCHMARK_CAPTURE(burst_calls, last_first, true, small_sizes())->Apply(sizes_and_history);
BENCHMARK_CAPTURE(burst_calls, first_first, false, small_sizes())->Apply(sizes_and_history);
BENCHMARK_CAPTURE(burst_calls, large_last_first, true, large_sizes())->Apply(sizes_and_history);
BENCHMARK_CAPTURE(burst_calls, large_first_first, false, large_sizes())->Apply(sizes_and_history);

}  // namespace
