// Every op in a region that is recomputed gives the gradients that it gives when everything is kept, bit for bit.
#include <gtest/gtest.h>

#include <headroom/core/test/op_checks.hpp>
#include <headroom/tests/support/op_names.hpp>

namespace headroom::test {
namespace replay_test {

class Replay : public testing::TestWithParam<std::size_t> {};

TEST_P(Replay, GivesTheSameGradientsBitForBit) { check_replay(all_ops()[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(AllOps, Replay, testing::Range(std::size_t{0}, all_ops().size()),
                         [](const auto& info) { return op_name(info.param); });

}  // namespace replay_test
}  // namespace headroom::test
