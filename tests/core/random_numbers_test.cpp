// What random ops draw: in a micro-batch by its number, the module's path and its use, so that others' draws and who
// computes it change nothing.
#include <functional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/attention.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/dropout.hpp>
#include <headroom/core/ops/sampling.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom {
namespace random_numbers_test {

using test::throws;
using Values = std::vector<float>;

/// What the module at a path draws next.
Values draw(Context& context, const char* path) {
    const RegionScope region(context, context.module_path(path));
    return rand(context, {4}).to_vector<float>();
}

/// In the micro-batch with a number.
template <class Work>
auto in_micro_batch(Context& context, std::uint64_t number, Work work) {
    context.set_random_counter(number);
    const MicroBatchScope scope(context);
    return work();
}

TEST(RandomNumbers, OfAMicroBatchDependOnNothingBeforeIt) {
    Context one = Context::cpu({.threads = 1, .seed = 7}), other = Context::cpu({.threads = 1, .seed = 7});
    std::vector<Values> in_order;
    for (std::uint64_t number = 0; number < 4; ++number) {
        const MicroBatchScope scope(one);
        in_order.push_back(draw(one, "a"));
    }
    EXPECT_EQ(one.random_counter(), 4u);
    for (const std::uint64_t number : {3u, 0u, 2u, 1u}) {
        EXPECT_EQ(in_micro_batch(other, number, [&] { return draw(other, "a"); }), in_order[number]);
        EXPECT_EQ(other.random_counter(), number + 1);
    }
    EXPECT_EQ(std::set<Values>(in_order.begin(), in_order.end()).size(), in_order.size());
}

TEST(RandomNumbers, OfAModuleDoNotDependOnOtherModules) {
    Context context = Context::cpu({.threads = 1, .seed = 7});
    const auto of_two = [&] { return std::vector{draw(context, "a"), draw(context, "a")}; };
    const std::vector<Values> alone = in_micro_batch(context, 5, of_two);
    const std::vector<Values> among = in_micro_batch(context, 5, [&] {
        draw(context, "b");
        std::vector<Values> result{draw(context, "a")};
        draw(context, "a.c");
        rand(context, {3});  // outside of modules
        result.push_back(draw(context, "a"));
        return result;
    });
    EXPECT_EQ(among, alone);
    EXPECT_NE(alone[0], alone[1]) << "the second time it draws others";
    Context built_otherwise = Context::cpu({.threads = 1, .seed = 7});
    for (const char* path : {"z", "b"}) built_otherwise.module_path(path);
    EXPECT_EQ(in_micro_batch(built_otherwise, 5, [&] { return draw(built_otherwise, "a"); }), alone[0]);
    EXPECT_NE(in_micro_batch(context, 5, [&] { return draw(context, "b"); }), alone[0]);
    EXPECT_NE(in_micro_batch(context, 5, [&] { return rand(context, {4}).to_vector<float>(); }), alone[0]);
}

TEST(RandomNumbers, DifferBySeedAndDomain) {
    Context context = Context::cpu({.threads = 1, .seed = 7}), other = Context::cpu({.threads = 1, .seed = 8});
    const auto first = [](Context& of) { return in_micro_batch(of, 0, [&] { return draw(of, "a"); }); };
    EXPECT_NE(first(context), first(other));
    const auto key = [&](kernels::RandomDomain domain) {
        return in_micro_batch(context, 0, [&] { return context.next_random(domain); });
    };
    EXPECT_FALSE(key(kernels::RandomDomain::op) == key(kernels::RandomDomain::sampling));
}

TEST(RandomNumbers, OutsideOfMicroBatchesEachDrawTakesANumber) {
    Context context = Context::cpu({.threads = 1, .seed = 7});
    const Values first = draw(context, "a"), second = draw(context, "b");
    EXPECT_EQ(context.random_counter(), 2u);
    context.set_random_counter(1);
    EXPECT_EQ(draw(context, "c"), second) << "whoever draws";
    EXPECT_NE(first, second);
}

TEST(RandomNumbers, ARefusedCallTakesNone) {
    Context context = Context::cpu({.threads = 1, .seed = 7});
    const Tensor x = rand(context, {2, 3}), integers = randint(context, 0, 5, {2, 3});
    const std::uint64_t before = context.random_counter();
    const std::function<void()> calls[] = {
        [&] { randn(context, {-1}); },
        [&] { rand(context, {-1}); },
        [&] { randint(context, 5, 0, {2}); },
        [&] { randn_like(x, Dtype::i64); },
        [&] { rand_like(x, Dtype::i64); },
        [&] { dropout(integers, 0.5); },
        [&] { dropout_add(integers, integers, 0.5); },
        [&] { randperm(context, -1); },
        [&] { multinomial(integers, 1); },
        [&] { attention(x, x, x, {.dropout = 0.5}); },
        [&] { attention_packed(x, 1, 1, {.dropout = 0.5}); },
    };
    for (const auto& call : calls) {
        EXPECT_THROW(call(), Error);
        EXPECT_EQ(context.random_counter(), before) << "call " << &call - calls;
    }
    rand(context, {4});
    EXPECT_EQ(context.random_counter(), before + 1);
}

TEST(RandomNumbers, AMicroBatchInAnotherOneIsRefused) {
    Context context = Context::cpu({.threads = 1});
    {
        const MicroBatchScope scope(context);
        EXPECT_THAT([&] { const MicroBatchScope inner(context); }, throws<Error>("micro-batches can't be nested"));
    }
    EXPECT_EQ(context.random_counter(), 1u);
    const MicroBatchScope next(context);
}

}  // namespace random_numbers_test
}  // namespace headroom
