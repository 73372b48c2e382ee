// Kernels on arrays of real sizes beyond 32 bits. Orders, sums up to each element, triangles and draws of categories
// are in large_orders_cuda_test.cpp.
#include <cmath>
#include <limits>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/cross_entropy/cross_entropy.hpp>
#include <headroom/kernels/dropout/dropout.hpp>
#include <headroom/kernels/dropout/internal/threshold.hpp>
#include <headroom/kernels/embedding/embedding.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/gather/gather.hpp>
#include <headroom/kernels/gather/internal/scatter_plan.hpp>
#include <headroom/kernels/layer_norm/layer_norm.hpp>
#include <headroom/kernels/matmul/internal/activate.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/optimizer/adamw.hpp>
#include <headroom/kernels/optimizer/sgd.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/random/philox.hpp>
#include <headroom/kernels/random/random.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/kernels/softmax/softmax.hpp>
#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>
#include <headroom/tests/kernels/large_arrays.hpp>

namespace headroom::kernels {
namespace large_arrays_cuda_test {

using namespace test;

constexpr std::int64_t k34 = std::int64_t{1} << 34;

TEST_P(LargeArrays, AreMapped) {
    for (const std::int64_t first : {0, 1}) {  // eight together, and one by one
        const View x = array(Dtype::bf16, {k32 + kOdd}), y = array(Dtype::bf16, {k32 + kOdd}, first);
        number(x);
        map(stream(), Affine{3, -1}, x, y);
        expect(y, [&](std::int64_t i) { return 3 * get(x, i) - 1; });
        map_backward(stream(), Affine{3, -1}, x, x, 1.0f, y);
        expect(y, [&](std::int64_t i) { return 6 * get(x, i) - 1; });
        const View condition = array(Dtype::boolean, {k32 + kOdd});
        number(condition);
        where(stream(), condition, x, x, y);
        expect(y, [&](std::int64_t i) { return get(x, i); });
    }
}

TEST_P(LargeArrays, AreDrawn) {
    const auto word = [](std::int64_t i) {
        return philox(kKey, static_cast<std::uint64_t>(i) / 4)[static_cast<std::size_t>(i % 4)];
    };
    const auto drawn = [&](std::int64_t i) { return uniform_from(word(i)); };
    const auto kept = [&](std::int64_t i) { return word(i) >= drop_threshold(0.5f) ? 2.0 : 0.0; };
    for (const std::int64_t first : {0, 1}) {
        const View y = array(Dtype::bf16, {k34 + kOdd}, first), x = array(Dtype::bf16, {k34 + kOdd}, first);
        uniform(stream(), kKey, 0, 1, y);
        expect(y, drawn);
        const View ones{array(Dtype::bf16, {1}).data, Dtype::bf16, y.shape, {0}};
        set(ones, 0, 1);
        dropout(stream(), kKey, 0.5f, ones, x);
        expect(x, kept);
        dropout_backward(stream(), kKey, 0.5f, ones, 1.0f, x);
        expect(x, [&](std::int64_t i) { return 2 * kept(i); });
    }
    const View y = array(Dtype::i32, {k34 + kOdd});
    random_integers(stream(), kKey, 0, 1 << 30, y);
    expect(y, [&](std::int64_t i) { return word(i) >> 2; });
}

TEST_P(LargeArrays, AreCopied) {
    const View x = array(Dtype::u8, {k32 + kOdd});
    number(x);
    for (const std::int64_t first : {0, 1}) {
        for (const Dtype dtype : {Dtype::u8, Dtype::i32}) {
            const View y = array(dtype, x.shape, first);
            copy(stream(), x, y);
            expect(y, [&](std::int64_t i) { return get(x, i); });
        }
        const View from = array(Dtype::bf16, x.shape), to = array(Dtype::f32, x.shape, first);
        number(from);
        copy(stream(), from, to);
        accumulate(stream(), from, to, 2, 1);
        expect(to, [&](std::int64_t i) { return 3 * get(from, i); });
    }
    const View byte{x.data, Dtype::u8, x.shape, {0}}, y = array(Dtype::u8, x.shape);
    copy(stream(), byte, y);
    expect(y, [&](std::int64_t) { return get(x, 0); });
}

TEST_P(LargeArrays, AreTransposed) {
    for (const Dtype to : {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::f64}) {
        const View x = array(to == Dtype::f32 ? Dtype::bf16 : to, {(1 << 17) + 64, 1 << 16});
        const View y = array(to, {1 << 16, (1 << 17) + 64});
        number(x);
        copy(stream(), x, transposed(y));
        expect(transposed(y), [&](std::int64_t i) { return get(x, i); });
    }
}

TEST_P(LargeArrays, AreFilled) {
    for (const std::int64_t first : {0, 1}) {
        const View y = array(Dtype::u8, {8 * k32 + kOdd}, first);
        fill(stream(), 7, y);
        expect(y, [](std::int64_t) { return 7; });
    }
    const View y = array(Dtype::i64, {k32 + kOdd}), mask = array(Dtype::u8, {1 << 17, (1 << 16) + 64});
    arange(stream(), 5, 3, y);
    expect(y, [](std::int64_t i) { return 5 + 3 * static_cast<double>(i); });
    causal_mask(stream(), mask);
    EXPECT_EQ(get(mask, 0), 0);
    EXPECT_EQ(get(mask, mask.numel() - 1), 1);
}

TEST_P(LargeArrays, AreGathered) {
    // A row takes more parts than a grid has blocks along y.
    const View x = array(Dtype::u8, {2, (65535 * 1024 + 5) * 16}), y = array(Dtype::u8, x.shape);
    const View index = array(Dtype::i32, {2});
    number(x);
    set(index, 0, 1);
    index_select(stream(), x, 0, index, y);
    const std::int64_t row = x.size(1);
    EXPECT_EQ(get(y, row - 1), get(x, 2 * row - 1));
    EXPECT_EQ(get(y, row), get(x, 0));

    const View wide = array(Dtype::u8, {k32 + kOdd}), result = array(Dtype::u8, wide.shape);
    const View indices = array(Dtype::i64, wide.shape);
    number(wide);
    at_the_ends(wide.numel(), [&](std::int64_t i) { set(indices, i, static_cast<double>(wide.numel() - 1 - i)); });
    gather(stream(), wide, 0, indices, result);
    expect(result, [&](std::int64_t i) { return get(wide, wide.numel() - 1 - i); });
}

TEST_P(LargeArrays, AreScatteredTo) {
    // Three lines have more rows than a key has room for.
    const View index = array(Dtype::i64, {3, 300}), source = array(Dtype::bf16, {3, 300});
    const View y = array(Dtype::bf16, {3, k31 - 8});
    for (std::int64_t i = 0; i < 900; ++i) {
        set(index, i, static_cast<double>(i % 300 == 7 ? 0 : y.size(1) - 1 - i % 2));
        set(source, i, i / 300 + 1);
    }
    const ScatterAddPlan plan(stream(), 1, index, source, y, 1);
    plan.run(stream(), scratch(plan.scratch()));
    for (std::int64_t line = 0; line < 3; ++line) {
        const auto last = (line + 1) * y.size(1) - 1, value = line + 1;
        EXPECT_EQ(get(y, line * y.size(1)), value);
        EXPECT_EQ(get(y, last), stored(Dtype::bf16, static_cast<double>(150 * value)));
        EXPECT_EQ(get(y, last - 1), stored(Dtype::bf16, static_cast<double>(149 * value)));
    }
}

TEST_P(LargeArrays, AreSummedByRows) {
    // One row with two tiles of 32 positions. The last columns of the first tile are nobody's: they count 0.
    for (const std::int64_t first : {0, 1}) {
        const View ids = array(Dtype::i32, {64}), table = array(Dtype::f32, {1, k32 + 64}, first);
        View dy = array(Dtype::f32, {64, k32 + 64});
        dy = {dy.data, dy.dtype, dy.shape, {0, 1}};
        number({dy.data, dy.dtype, {k32 + 64}, {1}});
        const EmbeddingGradientPlan plan(stream(), ids, dy, table, 0);
        plan.run(stream(), scratch(plan.scratch()));
        const std::int64_t last = table.numel() - 1;
        EXPECT_EQ(get(table, last), 32 * get(dy, last)) << first;
    }
}

TEST_P(LargeArrays, AreReduced) {
    const std::int64_t n = k32 + kOdd;
    for (const bool rows : {true, false}) {
        const View x = array(Dtype::bf16, rows ? Shape{n, 2} : Shape{2, n});
        const View y = array(Dtype::f32, rows ? Shape{n, 1} : Shape{1, n}), at = array(Dtype::i64, y.shape);
        number(x);
        const SumPlan plan(stream(), x, 1, y, 0);
        plan.run(stream(), scratch(plan.scratch()));
        const auto in = [&](std::int64_t i, std::int64_t k) { return get(x, rows ? 2 * i + k : k * n + i); };
        at_the_ends(n, [&](std::int64_t i) { ASSERT_EQ(get(y, i), in(i, 0) + in(i, 1)) << i; });
        argmax(stream(), x, rows ? 1 : 0, at);
        at_the_ends(n, [&](std::int64_t i) { ASSERT_EQ(get(at, i), in(i, 1) > in(i, 0)) << i; });
    }
    for (const std::int64_t first : {0, 1}) {
        const View dx = array(Dtype::bf16, {n}, first), dy = array(Dtype::bf16, {n});
        number(dy);
        sum_backward(stream(), dy, 2, dx, 0);
        sum_backward(stream(), dy, 1, dx, 1);
        expect(dx, [&](std::int64_t i) { return 3 * get(dy, i); });
        EXPECT_TRUE(all_finite(stream(), dx, scratch(all_finite_scratch(stream()))));
        set(dx, n - 1, std::numeric_limits<double>::infinity());
        EXPECT_FALSE(all_finite(stream(), dx, scratch(all_finite_scratch(stream()))));
    }
}

TEST_P(LargeArrays, HaveManyRows) {
    const Shape shape{k32 + 5, 8};
    for (const std::int64_t first : {0, 1}) {
        const View x = array(Dtype::bf16, shape), y = array(Dtype::bf16, shape, first);
        number(x);
        softmax(stream(), x, y);
        const auto exact = [&](std::int64_t i) {
            double sum = 0;
            for (std::int64_t k = 0; k < 8; ++k) sum += std::exp(get(x, i / 8 * 8 + k) - get(x, i));
            return 1 / sum;
        };
        expect(y, exact, 2 * epsilon(Dtype::bf16));
        const View targets = array(Dtype::i32, {shape[0]}), lse = array(Dtype::f32, {shape[0], 2});
        const View dloss = array(Dtype::f32, {});
        set(dloss, 0, 2);
        at_the_ends(y.numel(), [&](std::int64_t i) {
            set(lse, i / 8 * 2, get(x, i)), set(lse, i / 8 * 2 + 1, -std::log(exact(i)));
        });
        set(targets, shape[0] - 1, 3);
        cross_entropy_backward(stream(), x, targets, {}, {}, lse, dloss, y, 0);
        const auto gradient = [&](std::int64_t i) { return 2 * (exact(i) - (i % 8 == get(targets, i / 8) ? 1 : 0)); };
        at_the_ends(y.numel(),
                    [&](std::int64_t i) { ASSERT_NEAR(get(y, i), gradient(i), 4 * epsilon(Dtype::bf16)) << i; });
        const View mean = array(Dtype::f32, {shape[0]}), rstd = array(Dtype::f32, {shape[0]});
        layer_norm(stream(), x, nullptr, nullptr, 1e-5, y, mean, rstd);
        double sum = 0, squares = 0;
        for (std::int64_t i = y.numel() - 8; i < y.numel(); ++i) sum += get(y, i), squares += get(y, i) * get(y, i);
        EXPECT_NEAR(sum, 0, 8 * 8 * epsilon(Dtype::bf16));
        EXPECT_NEAR(squares, 8, 8 * 8 * epsilon(Dtype::bf16));
    }
}

TEST_P(LargeArrays, AreStepped) {
    const View rate = array(Dtype::f64, {}), multiplier = array(Dtype::f64, {}), steps = array(Dtype::f64, {});
    set(rate, 0, 0.5);
    set(multiplier, 0, 1);
    for (const std::int64_t first : {0, 1}) {  // where ranges begin elsewhere: one by one
        const View p = array(Dtype::f32, {k32 + kOdd}), g = array(Dtype::f32, p.shape, first);
        const View m = array(Dtype::f32, p.shape), v = array(Dtype::f32, p.shape);
        number(g);
        sgd(stream(), {}, rate, multiplier, g, p, nullptr);
        expect(p, [&](std::int64_t i) { return -0.5 * get(g, i); });
        adamw(stream(), {.beta1 = 0.5, .weight_decay = 0}, rate, multiplier, steps, g, p, m, v);
        expect(m, [&](std::int64_t i) { return 0.5 * get(g, i); });
    }
}

TEST_P(LargeArrays, AreActivated) {
    const Shape shape{(k32 >> 4) + 1, 16};
    for (const std::int64_t first : {0, 1}) {
        const View c = array(Dtype::bf16, shape, first), bias = array(Dtype::bf16, {16}), x = array(Dtype::bf16, shape);
        number(bias), number(x);
        add_bias(stream(), Activation::relu, bias, c);
        expect(c, [&](std::int64_t i) { return get(bias, i % 16); });
        activate_backward(stream(), Activation::relu, x, c, x);
        expect(c, [&](std::int64_t i) { return get(bias, i % 16); });
    }
}

TEST_P(LargeArrays, AreMultiplied) {
    stream().compute.own_kernels = true;
    controls->run_at_most(16);
    const std::int64_t batches = 70000;  // more than a grid has blocks along y
    const View a = array(Dtype::f32, {batches, 1, 2}), b = array(Dtype::f32, {batches, 2, 1});
    const View c = array(Dtype::f32, {batches, 1, 1});
    for (std::int64_t i = 0; i < 2 * batches; ++i) set(a, i, i % 5), set(b, i, i % 7);
    const MatmulPlan plan(stream(), {.a = a, .b = b, .c = c});
    plan.run(stream(), scratch(plan.scratch()));
    for (const std::int64_t i : {std::int64_t{0}, batches / 1024 * 1024, batches / 1024 * 1024 - 1}) {
        EXPECT_EQ(get(c, i), get(a, 2 * i) * get(b, 2 * i) + get(a, 2 * i + 1) * get(b, 2 * i + 1)) << i;
    }
    for (const Dtype dtype : {Dtype::f32, Dtype::f16}) {
        const View left = array(dtype, {k32 / 4 + 64, 8}), right = array(dtype, {8, 8});
        const View product = array(dtype, {k32 / 4 + 64, 8});
        number(left), number({right.data, dtype, {64}, {1}});
        const MatmulPlan tall(stream(), {.a = left, .b = right, .c = product});
        tall.run(stream(), scratch(tall.scratch()));
        at_the_ends(product.numel(), [&](std::int64_t i) {
            double sum = 0;
            for (std::int64_t k = 0; k < 8; ++k) sum += get(left, i / 8 * 8 + k) * get(right, 8 * k + i % 8);
            ASSERT_EQ(get(product, i), stored(dtype, sum)) << i;
        });
    }
}

INSTANTIATE_TEST_SUITE_P(Gpus, LargeArrays, testing::Bool(), gpu_name);

}  // namespace large_arrays_cuda_test
}  // namespace headroom::kernels
