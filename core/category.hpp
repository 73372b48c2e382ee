#pragma once
// The purposes for which a training has memory, and the options of a memory whose reports name them. A context that
// makes its own memory uses these options; for a memory to share, take them from here.
//
//     auto memory = std::make_shared<DeviceMemory>(memory::make_host_driver(), training_memory({.slack = 0.1}));
//     Context context = Context::cpu({.memory = memory});
#include <string>
#include <vector>

#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/memory/tag.hpp>

namespace headroom {

/// The index of figures such as `MemoryStatistics::allocated_by_category`.
enum class Category : memory::CategoryId { parameters, gradients, optimizer_state, activations, workspace, inputs };

/// By `Category`. In the order of charts: memory that stays is at the bottom, memory that comes and goes above it.
inline std::vector<memory::NamedCategory> category_names() {
    return {{"parameters", 0},  {"gradients", 2}, {"optimizer state", 1},
            {"activations", 4}, {"workspace", 5}, {"inputs", 3}};
}

/// `options` with these names, and `training_advice` for requests that do not fit.
memory::MemoryOptions training_memory(memory::MemoryOptions options = {});

/// Advice from the report's figures: how much grows with the micro-batch, and the room for it. The figures say nothing
/// about later requests; `rehearse` does.
std::string training_advice(const memory::MemoryReport& report);

}  // namespace headroom
