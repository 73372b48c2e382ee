#pragma once
// Numbers and names of all_ops(), for tests that have a case for each op.
//
//     INSTANTIATE_TEST_SUITE_P(AllOps, Gradients, testing::ValuesIn(differentiable_ops()),
//                              [](const auto& info) { return op_name(info.param); });
#include <string>
#include <vector>

#include <headroom/core/ops/all_ops.hpp>

namespace headroom::test {

/// The numbers of those ops that have a gradient.
inline std::vector<std::size_t> differentiable_ops() {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < all_ops().size(); ++i) {
        if (all_ops()[i].table->backward) result.push_back(i);
    }
    return result;
}

inline std::string op_name(std::size_t i) { return all_ops()[i].table->info.name; }

}  // namespace headroom::test
