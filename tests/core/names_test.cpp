// A program's own names beside those of a namespace that it uses as a whole.
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/op.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/tape/record.hpp>

using namespace headroom;

/// Ambiguous where headroom has such a name.
struct Result {
    Tensor deviation;
};
struct Region {
    std::int64_t first = 0;
};

namespace names_test {

TEST(Names, OfAProgramAreItsOwn) {
    Context context = Context::cpu();
    const Region region{.first = 2};
    const Result result{standard_deviation(arange(context, region.first, 5, 1, Dtype::f32))};
    EXPECT_EQ(result.deviation.item(), 1.0);
}

}  // namespace names_test
