#pragma once
// A way of recomputing: policies by module path, under a name. A model lists its own ways (`Gpt::recompute_ways`), and
// a training takes one of them by its name. A plan for a budget needs none.
//
//     const nn::RecomputeWay way{"cheap", "norms and the like", {{"blocks.*", recompute_cheap()}}};
//     for (const auto& [pattern, policy] : way.policies) context.policy(pattern, policy);
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/tape/policy.hpp>

namespace headroom::nn {

/// The default keeps all.
struct RecomputeWay {
    std::string name = "none";
    std::string what = "nothing";  ///< that backward computes again, for people
    /// By patterns of module paths. A way that has none, and is not the first of its list, is one that the training's
    /// task knows by its name.
    std::vector<std::pair<std::string, Policy>> policies = {};
};

/// The way "cheap", of modules whose paths fit `pattern`. `what` names the ops, for people.
inline RecomputeWay cheap_way(std::string pattern = "", std::string what = "norms and the like") {
    return {"cheap", std::move(what), {{std::move(pattern), recompute_cheap()}}};
}

/// Of one model, from keeping all, which is the first, to the least memory.
using RecomputeWays = std::vector<RecomputeWay>;

}  // namespace headroom::nn
