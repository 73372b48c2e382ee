#pragma once
// The memory categories of a training, and allocator options whose reports name them. A context that creates its own
// memory uses these options. If contexts share a memory, create it with them.
//
//     auto memory = std::make_shared<DeviceMemory>(memory::make_host_driver(), training_memory({.slack = 0.1}));
//     Context context = Context::cpu({.memory = memory});
#include <string>
#include <vector>

#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/memory/tag.hpp>

namespace headroom {

/// The index into figures such as `MemoryStatistics::allocated_by_category`.
enum class Category : memory::CategoryId { parameters, gradients, optimizer_state, activations, workspace, inputs };

/// The names, indexed by `Category`, with their layers in charts: long-lived memory at the bottom, short-lived memory
/// above it.
inline std::vector<memory::NamedCategory> category_names() {
    return {{"parameters", 0},  {"gradients", 2}, {"optimizer state", 1},
            {"activations", 4}, {"workspace", 5}, {"inputs", 3}};
}

/// `options` with these category names, and with `training_advice` for requests that do not fit.
memory::MemoryOptions training_memory(memory::MemoryOptions options = {});

/// Advice from the report's figures: how much grows with the micro-batch, and the room left for it. The figures don't
/// cover later requests; `rehearse` does.
std::string training_advice(const memory::MemoryReport& report);

}  // namespace headroom
