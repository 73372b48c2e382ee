// A rehearsal of every op takes the same memory as the real run, byte for byte.
#include <gtest/gtest.h>

#include <headroom/core/test/op_checks.hpp>
#include <headroom/tests/support/op_names.hpp>

namespace headroom::test {
namespace dry_test {

class Dry : public testing::TestWithParam<std::size_t> {};

TEST_P(Dry, CountsTheSameBytes) { check_rehearsal(all_ops()[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(AllOps, Dry, testing::Range(std::size_t{0}, all_ops().size()),
                         [](const auto& info) { return op_name(info.param); });

}  // namespace dry_test
}  // namespace headroom::test
