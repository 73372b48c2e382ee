#include <headroom/tests/support/training_history.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/core/category.hpp>

namespace headroom::test {

namespace {

using Kind = memory::MemoryEvent::Kind;

constexpr std::size_t kPage = 2 << 20;
constexpr std::size_t kUnit = 64;
constexpr std::uintptr_t kBase = 0x7f2a'4000'0000;

struct OutOfRoom {};

/// First fit in one range of addresses whose pages are mapped from its beginning on.
class Machine {
  public:
    explicit Machine(std::size_t limit) {
        history_.device = "host";
        history_.limit = limit;
        history_.paths = {""};
        history_.categories = category_names();
        history_.time = 5'000'000'000;
    }

    std::uintptr_t allocate(std::size_t requested, Category category, const std::string& path) {
        const std::size_t bytes = (requested + kUnit - 1) / kUnit * kUnit;
        const memory::Tag tag{static_cast<memory::CategoryId>(category), intern(path)};
        history_.time += 300 + bytes % 977;
        std::uintptr_t address = kBase;
        for (const auto& [begin, block] : live_) {
            if (begin - address >= bytes) break;
            address = begin + block.bytes;
        }
        const std::size_t needed = (address - kBase + bytes + kPage - 1) / kPage * kPage;
        if (needed > history_.limit) {
            event(Kind::out_of_memory, 0, bytes, requested, tag);
            throw OutOfRoom();
        }
        if (needed > history_.statistics.reserved) map(needed, tag);
        event(Kind::allocate, address, bytes, requested, tag);
        live_[address] = {.address = address, .bytes = bytes, .requested = requested, .live = true, .tag = tag};
        count(bytes, requested, category);
        return address;
    }

    void free(std::uintptr_t address) {
        const memory::BlockInfo block = live_.at(address);
        live_.erase(address);
        history_.time += 150;
        event(Kind::free, address, block.bytes, block.requested, block.tag);
        memory::MemoryStatistics& s = history_.statistics;
        s.allocated -= block.bytes;
        s.requested -= block.requested;
        s.allocated_by_category[block.tag.category] -= block.bytes;
    }

    void compute(std::uint64_t nanoseconds) { history_.time += nanoseconds; }
    void begin_step() { ++step_; }

    memory::MemorySnapshot finish(std::size_t kept) {
        std::uintptr_t at = kBase;
        const auto gap = [&](std::uintptr_t end) {
            if (end > at) history_.blocks.push_back({.address = at, .bytes = end - at});
        };
        for (const auto& [address, block] : live_) {
            gap(address);
            history_.blocks.push_back(block);
            at = address + block.bytes;
        }
        gap(kBase + history_.statistics.reserved);
        if (history_.statistics.reserved != 0) {
            history_.segments.push_back({.address = kBase, .bytes = history_.statistics.reserved});
        }
        if (history_.events.size() > kept) {
            history_.events_dropped = history_.events.size() - kept;
            history_.events.erase(history_.events.begin(), history_.events.end() - static_cast<std::ptrdiff_t>(kept));
        }
        history_.time += 1000;
        return std::move(history_);
    }

  private:
    memory::PathId intern(const std::string& path) {
        const auto [known, added] = paths_.try_emplace(path, static_cast<memory::PathId>(history_.paths.size()));
        if (added) history_.paths.push_back(path);
        return known->second;
    }

    void map(std::size_t needed, memory::Tag tag) {
        const std::size_t reserved = history_.statistics.reserved;
        event(Kind::map, kBase + reserved, needed - reserved, needed - reserved, tag);
        history_.time += 40'000;
        history_.statistics.reserved = history_.statistics.peak_reserved = needed;
    }

    void count(std::size_t bytes, std::size_t requested, Category category) {
        memory::MemoryStatistics& s = history_.statistics;
        s.allocated += bytes;
        s.requested += requested;
        s.allocated_by_category[static_cast<std::size_t>(category)] += bytes;
        ++s.allocations;
        if (s.allocated > s.peak_allocated) {
            s.peak_allocated = s.allocated;
            s.at_peak_by_category = s.allocated_by_category;
        }
    }

    void event(Kind kind, std::uintptr_t address, std::size_t bytes, std::size_t requested, memory::Tag tag) {
        history_.events.push_back({.time = history_.time,
                                   .address = address,
                                   .bytes = bytes,
                                   .requested = requested,
                                   .step = step_,
                                   .path = tag.path,
                                   .kind = kind,
                                   .category = tag.category});
    }

    memory::MemorySnapshot history_;
    std::map<std::uintptr_t, memory::BlockInfo> live_;
    std::map<std::string, memory::PathId> paths_{{"", 0}};
    std::uint32_t step_ = 0;
};

/// An activation of a layer in units of tokens * width floats.
struct Part {
    const char* name;
    double size;
    double work;
};
constexpr Part kLayer[] = {{"norm1", 1, .2}, {"attention.qkv", 3, 3}, {"attention", 1.03, 2}, {"attention.out", 1, 1},
                           {"norm2", 1, .2}, {"mlp.up", 4, 4},        {"mlp.gelu", 4, .4},    {"mlp.down", 1, 4}};

class Training {
  public:
    Training(Machine& machine, const TrainingOptions& options)
        : machine_(machine), options_(options), unit_(options.tokens * options.width * 4) {}

    void run() {
        create(Category::parameters, 1);
        for (int step = 0; step < options_.steps; ++step) {
            machine_.begin_step();
            if (step == 0) create(Category::gradients, 1);
            one_step();
            if (step == 0) create(Category::optimizer_state, 2);
            machine_.compute(static_cast<std::uint64_t>(options_.layers) * unit_ / 60);
        }
    }

  private:
    using Addresses = std::vector<std::uintptr_t>;

    void create(Category category, int copies) {
        const std::size_t weights = options_.width * options_.width * 4;
        for (int copy = 0; copy < copies; ++copy) {
            machine_.allocate(257 * options_.width * 4 + 20, category, "token_embedding");
            for (int layer = 0; layer < options_.layers; ++layer) {
                machine_.allocate(3 * weights + 12, category, fmt::format("blocks.{}.attention.qkv", layer));
                machine_.allocate(weights + 12, category, fmt::format("blocks.{}.attention.out", layer));
                machine_.allocate(4 * weights + 12, category, fmt::format("blocks.{}.mlp.up", layer));
                machine_.allocate(4 * weights + 12, category, fmt::format("blocks.{}.mlp.down", layer));
            }
        }
    }

    std::uintptr_t activation(double size, const std::string& path) {
        return machine_.allocate(static_cast<std::size_t>(size * static_cast<double>(unit_)) + 4, Category::activations,
                                 path);
    }

    /// Its activations; the last one is its result.
    Addresses forward(int layer) {
        Addresses kept;
        for (const Part& part : kLayer) {
            const std::string path = fmt::format("blocks.{}.{}", layer, part.name);
            kept.push_back(activation(part.size, path));
            const auto scratch = machine_.allocate(unit_ / 7, Category::workspace, path);
            machine_.compute(static_cast<std::uint64_t>(part.work * static_cast<double>(unit_) / 20));
            machine_.free(scratch);
        }
        return kept;
    }

    void backward(int layer, Addresses kept) {
        for (int i = std::size(kLayer) - 1; i >= 0; --i) {
            const Part& part = kLayer[i];
            const std::string path = fmt::format("blocks.{}.{}", layer, part.name);
            const auto gradient = activation(part.size, path);
            const auto scratch = machine_.allocate(unit_ / 3, Category::workspace, path);
            machine_.compute(static_cast<std::uint64_t>(part.work * static_cast<double>(unit_) / 10));
            machine_.free(scratch);
            machine_.free(gradient);
            machine_.free(kept[i]);
        }
    }

    void one_step() {
        const auto input = machine_.allocate(options_.tokens * 8, Category::inputs, "");
        const auto embedded = activation(1, "token_embedding");
        std::vector<Addresses> layers;
        for (int layer = 0; layer < options_.layers; ++layer) {
            layers.push_back(forward(layer));
            if (options_.checkpoint) drop_all_but_result(layers.back());
        }
        const auto logits = machine_.allocate(options_.tokens * 257 * 4, Category::activations, "head");
        machine_.compute(unit_ / 4);
        machine_.free(logits);
        for (int layer = options_.layers - 1; layer >= 0; --layer) {
            if (options_.checkpoint) {
                machine_.free(layers[layer].back());
                layers[layer] = forward(layer);
            }
            backward(layer, layers[layer]);
        }
        machine_.free(embedded);
        machine_.free(input);
    }

    void drop_all_but_result(Addresses& layer) {
        for (std::size_t i = 0; i + 1 < layer.size(); ++i) machine_.free(layer[i]);
        layer = {layer.back()};
    }

    Machine& machine_;
    const TrainingOptions& options_;
    std::size_t unit_;
};

}  // namespace

memory::MemorySnapshot training_history(const TrainingOptions& options) {
    Machine machine(options.limit);
    try {
        Training(machine, options).run();
    } catch (const OutOfRoom&) {
        // The history ends there, as that of a program that does not catch the error.
    }
    return machine.finish(options.kept);
}

}  // namespace headroom::test
