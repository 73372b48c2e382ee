// What a block costs when the allocator has one: accounting, lock and limit on. One iteration is one allocation and one
// free. The number is that of other live blocks.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <memory>
#include <random>
#include <vector>

#include <headroom/memory/buffer.hpp>
#include <headroom/memory/device_memory.hpp>

namespace {

using namespace headroom;

/// Sizes as in training: few different ones, from statistics of a row to activations.
std::size_t some_size(std::mt19937& random) {
    static constexpr std::size_t kSizes[] = {64, 512, 3072, 4096, 12288, 24576, 36864, 98304};
    return kSizes[random() % std::size(kSizes)];
}

/// An allocator with `live` blocks and as many holes between them.
struct Heap {
    explicit Heap(std::size_t live) : memory(make_simulated_host_driver(), {.limit = std::size_t{20'000'000'000}}) {
        const Tag tag{Category::activations, memory.intern("blocks.0.mlp")};
        std::vector<Block*> holes;
        for (std::size_t i = 0; i < live; ++i) {
            blocks.push_back(memory.allocate(some_size(random), 0, tag).handle);
            holes.push_back(memory.allocate(some_size(random), 0, tag).handle);
        }
        for (Block* hole : holes) memory.deallocate(hole);
    }
    std::mt19937 random{1};
    DeviceMemory memory;
    std::vector<Block*> blocks;
};

/// The same block again and again.
void hit(benchmark::State& state) {
    Heap heap(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) heap.memory.deallocate(heap.memory.allocate(4096, 0, {Category::activations, 1}).handle);
}
BENCHMARK(hit)->Arg(1'000)->Arg(100'000);

/// A random one of the live blocks goes, one of another size comes: neighbours merge, blocks are split.
void replace(benchmark::State& state) {
    Heap heap(static_cast<std::size_t>(state.range(0)));
    const auto count = static_cast<std::uint32_t>(heap.blocks.size());
    for (auto _ : state) {
        Block*& block = heap.blocks[heap.random() % count];
        heap.memory.deallocate(block);
        block = heap.memory.allocate(some_size(heap.random), 0, {Category::activations, 1}).handle;
    }
}
BENCHMARK(replace)->Arg(1'000)->Arg(100'000);

/// Through the counted reference that a tensor holds.
void buffer(benchmark::State& state) {
    Heap heap(1'000);
    for (auto _ : state) {
        const Buffer buffer = Buffer::allocate(heap.memory, 4096, 0, {Category::activations, 1});
        benchmark::DoNotOptimize(buffer.data());
    }
}
BENCHMARK(buffer);

/// Several threads, each on its stream, share one allocator.
void hit_from_threads(benchmark::State& state) {
    static std::unique_ptr<Heap> heap;
    if (state.thread_index() == 0) heap = std::make_unique<Heap>(1'000);
    const auto stream = static_cast<StreamId>(state.thread_index());
    for (auto _ : state)
        heap->memory.deallocate(heap->memory.allocate(4096, stream, {Category::activations, 1}).handle);
    state.SetItemsProcessed(state.iterations());
    if (state.thread_index() == 0) heap.reset();
}
BENCHMARK(hit_from_threads)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace
