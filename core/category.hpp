#pragma once
// What a training has memory for, and a memory whose reports say so. Every context that makes a memory of its own makes
// it so; who makes one to share takes the options from here.
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

/// By `Category`. Charts stack what stays below what comes and goes.
inline std::vector<memory::NamedCategory> category_names() {
    return {{"parameters", 0},  {"gradients", 2}, {"optimizer state", 1},
            {"activations", 4}, {"workspace", 5}, {"inputs", 3}};
}

/// `options` with these names, and `training_advice` for what does not fit.
memory::MemoryOptions training_memory(memory::MemoryOptions options = {});

/// What the report's figures say of a training: what grows with the micro-batch, and the room for it. They say nothing
/// of what would have come after the request; `rehearse` does.
std::string training_advice(const memory::MemoryReport& report);

}  // namespace headroom
