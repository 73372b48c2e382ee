// What a block costs when the allocator has one: accounting, lock and limit on. One iteration is one allocation and one
// free. The first number is that of other live blocks, the second says whether the history is kept. For single calls
// and their percentiles see calls_bench.cpp.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "heap.hpp"

#include <headroom/memory/buffer.hpp>

namespace {

using namespace headroom;
using namespace headroom::bench;

MemoryOptions options_of(const benchmark::State& state) {
    return {.history = state.range(1) != 0 ? std::size_t{1'000'000} : std::size_t{0}};
}

void sizes_and_history(benchmark::internal::Benchmark* benchmark) {
    benchmark->ArgNames({"live", "history"})->ArgsProduct({{1'000, 100'000}, {0, 1}});
}

/// The same block again and again.
void hit(benchmark::State& state) {
    Heap heap(static_cast<std::size_t>(state.range(0)), options_of(state));
    for (auto _ : state) heap.memory.deallocate(heap.memory.allocate(4096, 0, kTag).handle);
}
BENCHMARK(hit)->Apply(sizes_and_history);

/// On the host's driver: what a context on the CPU pays.
void hit_on_host(benchmark::State& state) {
    Heap heap(static_cast<std::size_t>(state.range(0)), {}, make_simulated_host_driver());
    for (auto _ : state) heap.memory.deallocate(heap.memory.allocate(4096, 0, kTag).handle);
}
BENCHMARK(hit_on_host)->ArgName("live")->Arg(1'000)->Arg(100'000);

/// A random one of the live blocks goes, one of another size comes: neighbours merge, blocks are split.
void replace(benchmark::State& state) {
    Heap heap(static_cast<std::size_t>(state.range(0)), options_of(state));
    const auto count = static_cast<std::uint32_t>(heap.blocks.size());
    for (auto _ : state) {
        Block*& block = heap.blocks[heap.random() % count];
        heap.memory.deallocate(block);
        block = heap.memory.allocate(some_size(heap.random), 0, kTag).handle;
    }
}
BENCHMARK(replace)->Apply(sizes_and_history);

/// As a training step: many blocks come, then all go; the last one first, as in backward, or the first one first.
void burst(benchmark::State& state, bool last_first) {
    constexpr std::size_t kBlocks = 256;
    Heap heap(static_cast<std::size_t>(state.range(0)), options_of(state));
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < kBlocks; ++i) sizes.push_back(some_size(heap.random));
    std::vector<Block*> blocks(kBlocks);
    while (state.KeepRunningBatch(kBlocks)) {
        for (std::size_t i = 0; i < kBlocks; ++i) blocks[i] = heap.memory.allocate(sizes[i], 0, kTag).handle;
        for (std::size_t i = 0; i < kBlocks; ++i) heap.memory.deallocate(blocks[last_first ? kBlocks - 1 - i : i]);
    }
}
BENCHMARK_CAPTURE(burst, last_first, true)->Apply(sizes_and_history);
BENCHMARK_CAPTURE(burst, first_first, false)->Apply(sizes_and_history);

/// Through the counted reference that a tensor holds.
void buffer(benchmark::State& state) {
    Heap heap(1'000);
    for (auto _ : state) {
        const Buffer buffer = Buffer::allocate(heap.memory, 4096, 0, kTag);
        benchmark::DoNotOptimize(buffer.data());
    }
}
BENCHMARK(buffer);

/// Several threads, each on its stream, share one allocator.
void hit_from_threads(benchmark::State& state) {
    static std::unique_ptr<Heap> heap;
    if (state.thread_index() == 0) heap = std::make_unique<Heap>(1'000);
    const auto stream = static_cast<StreamId>(state.thread_index());
    for (auto _ : state) heap->memory.deallocate(heap->memory.allocate(4096, stream, kTag).handle);
    state.SetItemsProcessed(state.iterations());
    if (state.thread_index() == 0) heap.reset();
}
BENCHMARK(hit_from_threads)->Threads(1)->Threads(2)->UseRealTime();

/// Pairs of an allocation and a free per second, of all threads together, each on its stream with a training's sizes.
double pairs_per_second(DeviceMemory& memory, unsigned threads) {
    constexpr std::size_t kPairs = 200'000;
    constexpr std::size_t kBlocks = 16;
    const auto work = [&](StreamId stream) {
        std::mt19937 random(stream + 1);
        std::size_t sizes[kBlocks];
        for (std::size_t& size : sizes) size = some_size(random);
        Block* blocks[kBlocks];
        for (std::size_t i = 0; i < kPairs; i += kBlocks) {
            for (std::size_t j = 0; j < kBlocks; ++j) blocks[j] = memory.allocate(sizes[j], stream, kTag).handle;
            for (std::size_t j = kBlocks; j-- > 0;) memory.deallocate(blocks[j]);
        }
    };
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads; ++i) others.emplace_back(work, static_cast<StreamId>(i));
    work(0);
    for (std::thread& other : others) other.join();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(threads) * kPairs / time.count();
}

/// One thread and two in turn: `ratio` is the median of what two did per second for each that one did. Needs two idle
/// processors.
void two_threads_for_one(benchmark::State& state) {
    Heap heap(1'000, options_of(state));
    std::vector<double> ratios;
    double one = 0;
    double two = 0;
    for (auto _ : state) {
        one = pairs_per_second(heap.memory, 1);
        two = pairs_per_second(heap.memory, 2);
        ratios.push_back(two / one);
    }
    std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
    state.counters["ratio"] = ratios[ratios.size() / 2];
    state.counters["one_ns"] = 1e9 / one;
    state.counters["two_ns"] = 1e9 / two;
}
BENCHMARK(two_threads_for_one)
    ->ArgNames({"live", "history"})
    ->Args({1'000, 0})
    ->Args({1'000, 1})
    ->Iterations(15)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
