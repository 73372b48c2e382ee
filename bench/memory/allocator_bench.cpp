// What a block costs when the allocator has one: accounting, lock and limit on. One iteration is one allocation and one
// free. The first number is that of other live blocks, the second says whether the history is kept. For single calls
// and their percentiles see calls_bench.cpp.
#include <benchmark/benchmark.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "heap.hpp"

#include <headroom/memory/buffer.hpp>

namespace {

using namespace headroom;
using namespace headroom::bench;

memory::MemoryOptions options_of(const benchmark::State& state) {
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
    Heap heap(static_cast<std::size_t>(state.range(0)), {}, memory::make_simulated_host_driver());
    for (auto _ : state) heap.memory.deallocate(heap.memory.allocate(4096, 0, kTag).handle);
}
BENCHMARK(hit_on_host)->ArgName("live")->Arg(1'000)->Arg(100'000);

/// A random one of the live blocks goes, one of another size comes: neighbours merge, blocks are split.
void replace(benchmark::State& state) {
    Heap heap(static_cast<std::size_t>(state.range(0)), options_of(state));
    const auto count = static_cast<std::uint32_t>(heap.blocks.size());
    for (auto _ : state) {
        memory::Block*& block = heap.blocks[heap.random() % count];
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
    std::vector<memory::Block*> blocks(kBlocks);
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
        const memory::Buffer buffer = memory::Buffer::allocate(heap.memory, 4096, 0, kTag);
        benchmark::DoNotOptimize(buffer.data());
    }
}
BENCHMARK(buffer);

/// Several threads, each on its stream, share one allocator.
void hit_from_threads(benchmark::State& state) {
    static std::unique_ptr<Heap> heap;
    if (state.thread_index() == 0) heap = std::make_unique<Heap>(1'000);
    const auto stream = static_cast<memory::StreamId>(state.thread_index());
    for (auto _ : state) heap->memory.deallocate(heap->memory.allocate(4096, stream, kTag).handle);
    state.SetItemsProcessed(state.iterations());
    if (state.thread_index() == 0) heap.reset();
}
BENCHMARK(hit_from_threads)->Threads(1)->Threads(2)->UseRealTime();

/// Seconds that this thread has been computing.
double thread_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Keeps the calling thread on one processor while it exists: the system takes longer to spread two threads than the
/// whole measurement does.
class Pinned {
  public:
    explicit Pinned(unsigned thread) {
        sched_getaffinity(0, sizeof before_, &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        unsigned seen = 0;
        for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
            if (CPU_ISSET(processor, &before_) && seen++ == thread) CPU_SET(processor, &one);
        }
        if (CPU_COUNT(&one) == 1) sched_setaffinity(0, sizeof one, &one);
    }
    ~Pinned() { sched_setaffinity(0, sizeof before_, &before_); }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;

  private:
    cpu_set_t before_{};
};

/// Of all threads together, for a pair of an allocation and a free.
struct Speed {
    double nanoseconds = 0;      ///< between one pair and the next
    double cpu_nanoseconds = 0;  ///< that a processor spent on one
};

/// Each thread has its stream, and blocks of a training's sizes that come and go as in a step.
Speed measure(memory::DeviceMemory& memory, unsigned threads) {
    constexpr std::size_t kPairs = 1'600'000;
    constexpr std::size_t kBlocks = 16;
    std::vector<double> seconds(threads);
    const auto work = [&](memory::StreamId stream) {
        const Pinned pinned(stream);
        std::mt19937 random(1);
        std::size_t sizes[kBlocks];
        for (std::size_t& size : sizes) size = some_size(random);
        memory::Block* blocks[kBlocks];
        const double begin = thread_seconds();
        for (std::size_t i = 0; i < kPairs; i += kBlocks) {
            for (std::size_t j = 0; j < kBlocks; ++j) blocks[j] = memory.allocate(sizes[j], stream, kTag).handle;
            for (std::size_t j = kBlocks; j-- > 0;) memory.deallocate(blocks[j]);
        }
        seconds[stream] = thread_seconds() - begin;
    };
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads; ++i) others.emplace_back(work, static_cast<memory::StreamId>(i));
    work(0);
    for (std::thread& other : others) other.join();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    const double pairs = static_cast<double>(threads) * kPairs;
    return {1e9 * time.count() / pairs, 1e9 * std::accumulate(seconds.begin(), seconds.end(), 0.0) / pairs};
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// One thread and two in turn: `ratio` is the median of what two did per second for each pair that one did. Needs two
/// idle processors; `cpu_ratio`, by the threads' own clocks, says what it would be where others compute, too.
void two_threads_for_one(benchmark::State& state, std::unique_ptr<memory::Driver> (*make_driver)()) {
    Heap heap(1'000, options_of(state), make_driver());
    std::vector<double> ratios;
    std::vector<double> cpu_ratios;
    std::vector<double> alone;
    for (auto _ : state) {
        const Speed one = measure(heap.memory, 1);
        const Speed two = measure(heap.memory, 2);
        ratios.push_back(one.nanoseconds / two.nanoseconds);
        cpu_ratios.push_back(2 * one.cpu_nanoseconds / two.cpu_nanoseconds);
        alone.push_back(one.cpu_nanoseconds);
    }
    state.counters["ratio"] = median(ratios);
    state.counters["cpu_ratio"] = median(cpu_ratios);
    state.counters["one_ns"] = median(alone);
}
void for_threads(benchmark::internal::Benchmark* benchmark) {
    benchmark->ArgNames({"live", "history"})->Args({1'000, 0})->Args({1'000, 1});
    benchmark->Iterations(15)->Unit(benchmark::kMillisecond)->UseRealTime();
}
BENCHMARK_CAPTURE(two_threads_for_one, gpu, simulated_gpu)->Apply(for_threads);
BENCHMARK_CAPTURE(two_threads_for_one, host, memory::make_simulated_host_driver)->Apply(for_threads);

}  // namespace
