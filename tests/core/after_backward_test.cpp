// Work on state outside of the tape: once for what is recorded, when its backward has succeeded.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/support/toy_ops.hpp>

namespace headroom {
namespace after_backward_test {

struct AfterBackward : ::testing::Test {
    /// A result beside which an update waits.
    Tensor marked(const Tensor& x, char name) {
        Tensor y = toy::mul(x, x);
        context.after_backward([this, name](Exec& exec, const Array* loss) {
            done += name;
            if (loss) losses.push_back(exec.dry() ? 0 : *loss->view().as<double>());
        });
        return y;
    }
    Context context = Context::cpu({.threads = 1});
    Tensor x = ones(context, {3}).detach().requires_grad_();
    std::string done;
    std::vector<double> losses;
};

TEST_F(AfterBackward, RunsOnceAndInOrder) {
    const PathId path = context.module_path("m");
    context.policy("m", recompute_all());
    Tensor loss;
    {
        const RegionScope scope(context, path);
        loss = sum(marked(marked(x, 'a'), 'b'));
    }
    EXPECT_EQ(done, "");
    backward(loss);
    EXPECT_EQ(done, "ab");
    EXPECT_GT(context.tape().statistics().replayed, 0u);
    backward(sum(toy::mul(x, x)));
    EXPECT_EQ(done, "ab");
    EXPECT_EQ(losses, (std::vector<double>{3, 3}));
}

TEST_F(AfterBackward, RunsOnceThoughNothingWasRecordedBefore) {
    context.after_backward([this](Exec&, const Array*) { done += 'a'; });
    backward(sum(toy::mul(x, x)));
    backward(sum(toy::mul(x, x)));
    EXPECT_EQ(done, "a");
}

TEST_F(AfterBackward, SeesTheSumOfAllLosses) {
    const Tensor first = sum(marked(x, 'a')), second = sum(toy::mul(x, x));
    backward({first, second}, {1.0, 5.0});
    EXPECT_EQ(losses, std::vector<double>{6});
}

TEST_F(AfterBackward, IsForgottenWithItsRecords) {
    const Tensor kept = marked(x, 'a');
    const std::size_t records = context.tape().size();
    marked(x, 'b');  // nobody holds the result
    const Tensor retried = marked(x, 'c');
    context.tape().truncate(records);
    const Tensor again = marked(x, 'd');
    backward(sum(toy::add(kept, again)));
    EXPECT_EQ(done, "ad");
}

TEST_F(AfterBackward, IsForgottenWhereBackwardFails) {
    toy::Faults faults{.backward = 0};
    EXPECT_ANY_THROW(backward(sum(toy::fragile(marked(x, 'a'), faults))));
    backward(sum(marked(x, 'b')));
    EXPECT_EQ(done, "b");
}

TEST_F(AfterBackward, WaitsForALossThatCanBeUsed) {
    const Tensor loss = sum(marked(x, 'a'));
    EXPECT_THROW(backward(x), ShapeError);
    backward(loss);
    EXPECT_EQ(done, "a");
}

TEST_F(AfterBackward, RunsAtOnceWhereNothingIsRecorded) {
    const NoGradGuard no_grad(context);
    marked(x, 'a');
    EXPECT_EQ(done, "a");
    EXPECT_TRUE(losses.empty());
}

}  // namespace after_backward_test
}  // namespace headroom
