// Gradients of every op against finite differences in f64, and what else must hold for them (core/test/op_checks.hpp).
#include <gtest/gtest.h>

#include <headroom/core/test/op_checks.hpp>
#include <headroom/tests/support/op_names.hpp>

namespace headroom::test {
namespace gradients_test {

class Gradients : public testing::TestWithParam<std::size_t> {};

TEST_P(Gradients, AgreeWithFiniteDifferencesAndAddUp) { check_gradients(all_ops()[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(AllOps, Gradients, testing::ValuesIn(differentiable_ops()),
                         [](const auto& info) { return op_name(info.param); });

}  // namespace gradients_test
}  // namespace headroom::test
