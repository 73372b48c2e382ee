// The search for the module whose output is the first that is not finite.
#include <headroom/core/context.hpp>

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace non_finite_cuda_test {

PathId path(Context& context, const char* name) { return context.memory().intern(name); }

TEST(NonFinite, IsFoundInTheInnermostRegionThatItLeaves) {
    Context context = Context::cpu({.threads = 1});
    const Tensor x = context.from_host(std::vector<float>{1, -1}, {2});
    context.find_non_finite(true);
    {
        const RegionScope outer(context, path(context, "outer"));
        Tensor y;
        {
            const RegionScope fine(context, path(context, "outer.fine"));
            y = exp(x);
        }
        EXPECT_FALSE(context.first_non_finite());
        {
            const RegionScope bad(context, path(context, "outer.bad"));
            y = log(x);
        }
        EXPECT_EQ(context.first_non_finite(), "outer.bad");
    }
    EXPECT_EQ(context.first_non_finite(), "outer.bad");
    context.find_non_finite(true);
    EXPECT_FALSE(context.first_non_finite());
}

/// A check takes memory on a GPU. Where there is none, a region further out is named.
TEST(NonFinite, AFullMemoryDoesNotEndTheProgram) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    Context context = Context::cuda(0, {.memory_limit = std::size_t{4} << 20});
    const Tensor x = full(context, {2}, std::numeric_limits<double>::quiet_NaN());
    context.find_non_finite(true);
    Tensor y;
    {
        const RegionScope outer(context, path(context, "outer"));
        std::vector<Tensor> others;
        {
            const RegionScope inner(context, path(context, "outer.inner"));
            y = exp(x);
            for (const std::int64_t count : {1 << 18, 1 << 12, 1 << 7, 1}) {
                try {
                    while (true) others.push_back(full(context, {count}, 0));
                } catch (const OutOfMemory&) {
                }
            }
        }
        EXPECT_FALSE(context.first_non_finite());
        others.clear();
    }
    EXPECT_EQ(context.first_non_finite(), "outer");
}

}  // namespace non_finite_cuda_test
}  // namespace headroom
