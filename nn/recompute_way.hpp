#pragma once
// A named set of recomputation policies, by module path. A model lists its own (`Gpt::recompute_ways`), and a training
// selects one by name. A plan for a budget does not need one.
//
//     const nn::RecomputeWay way{"cheap", "norms and the like", {{"blocks.*", recompute_cheap()}}};
//     for (const auto& [pattern, policy] : way.policies) context.policy(pattern, policy);
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/tape/policy.hpp>

namespace headroom::nn {

/// By default, nothing is recomputed.
struct RecomputeWay {
    std::string name = "none";
    std::string what = "nothing";  ///< description of the recomputed ops, for messages
    /// Policies by module path pattern. Without policies, the task implements the way (`training::Task::recompute`),
    /// except for the first way of a list, which keeps everything.
    std::vector<std::pair<std::string, Policy>> policies = {};
};

/// The way "cheap" for modules whose paths match `pattern`. `what` describes the recomputed ops in messages.
inline RecomputeWay cheap_way(std::string pattern = "", std::string what = "norms and the like") {
    return {"cheap", std::move(what), {{std::move(pattern), recompute_cheap()}}};
}

/// A model's ways, from keeping everything (the first) to the least memory.
using RecomputeWays = std::vector<RecomputeWay>;

}  // namespace headroom::nn
