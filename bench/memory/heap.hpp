#pragma once
// An allocator in the middle of its work, for benchmarks: live blocks of a training's sizes and holes between them.
//
//     Heap heap(1'000, {.history = 1'000'000});
//     heap.memory.deallocate(heap.memory.allocate(4096, 0, kTag).handle);
#include <cstddef>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <headroom/memory/device_memory.hpp>

namespace headroom::bench {

/// The path is the first that `Heap` interns.
inline constexpr memory::Tag kTag{.path = 1};

/// Sizes as in training: few different ones, from statistics of a row to activations.
inline std::size_t some_size(std::mt19937& random) {
    static constexpr std::size_t kSizes[] = {64, 512, 3072, 4096, 12288, 24576, 36864, 98304};
    return kSizes[random() % std::size(kSizes)];
}

/// Streams are asynchronous, pages are of 2 MiB, blocks of 512 bytes.
inline std::unique_ptr<memory::Driver> simulated_gpu() {
    memory::SimulatedOptions options;
    options.properties = {.name = "simulated GPU",
                          .granularity = std::size_t{2} << 20,
                          .alignment = 512,
                          .total_bytes = 80'000'000'000,
                          .address_bytes = std::size_t{1} << 38,
                          .touchable = false,
                          .synchronous = false};
    options.event_latency = 64;
    return memory::make_simulated_driver(options);
}

/// `live` blocks and as many holes between them, with a limit set.
struct Heap {
    explicit Heap(std::size_t live, memory::MemoryOptions options = {},
                  std::unique_ptr<memory::Driver> driver = simulated_gpu())
        : memory(std::move(driver), with_limit(options)) {
        memory.intern("blocks.0.mlp");
        std::vector<memory::Block*> holes;
        for (std::size_t i = 0; i < live; ++i) {
            blocks.push_back(memory.allocate(some_size(random), 0, kTag).handle);
            holes.push_back(memory.allocate(some_size(random), 0, kTag).handle);
        }
        for (memory::Block* hole : holes) memory.deallocate(hole);
    }
    ~Heap() {
        for (memory::Block* block : blocks) memory.deallocate(block);
    }
    Heap(const Heap&) = delete;
    Heap& operator=(const Heap&) = delete;

    std::mt19937 random{1};
    memory::DeviceMemory memory;
    std::vector<memory::Block*> blocks;

  private:
    static memory::MemoryOptions with_limit(memory::MemoryOptions options) {
        options.limit = 20'000'000'000;
        return options;
    }
};

}  // namespace headroom::bench
