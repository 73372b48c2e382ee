// Correct kernels pass, at sizes around warps and blocks and in many orders of their threads.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <headroom/tests/simt/emulator.hpp>
#include <headroom/tests/simt/kernels/examples.hpp>

namespace headroom::simt {
namespace examples_test {

constexpr std::int64_t kSizes[] = {1, 31, 33, 1023, 1025};
#if defined(__SANITIZE_THREAD__)
constexpr int kSeeds = 3;
#else
constexpr int kSeeds = 20;
#endif

class Examples : public testing::TestWithParam<std::int64_t> {
  protected:
    /// Calls `test` with data and orders from many seeds; the first is new each time.
    template <class Test>
    void from_many_seeds(const Test& test) {
        for (std::uint64_t first = Emulator().seed(), i = 0; i < kSeeds; ++i) {
            gpu.reseed(first + i);
            random.seed(first + i);
            SCOPED_TRACE(testing::Message() << "HEADROOM_TEST_SEED=" << gpu.seed());
            test();
        }
    }
    float draw() { return static_cast<float>(std::normal_distribution<double>()(random)); }

    // One for all tests: ThreadSanitizer's fibers take a while to make.
    static Emulator& device() {
        static Emulator emulator;
        return emulator;
    }
    Emulator& gpu = device();
    std::mt19937_64 random;
};
INSTANTIATE_TEST_SUITE_P(Sizes, Examples, testing::ValuesIn(kSizes));

template <class T>
void check_row_sum(Emulator& gpu, std::int64_t columns, auto draw) {
    const std::int64_t rows = 3;
    Array<T> x(rows * columns);
    for (T& value : x) value = kernels::device::rounded<T>(draw());
    Array<float> y(rows, NAN);
    test_kernels::row_sum(gpu, x.data(), y.data(), rows, columns);
    for (std::int64_t row = 0; row < rows; ++row) {
        double sum = 0, magnitude = 0;
        for (std::int64_t i = 0; i < columns; ++i) {
            sum += kernels::device::as_float(x[row * columns + i]);
            magnitude += std::abs(kernels::device::as_float(x[row * columns + i]));
        }
        // At most columns / 64 + 8 additions one after the other in a thread, then ten in the tree.
        const double depth = static_cast<double>(columns) / 64 + 18;
        EXPECT_NEAR(y[row], sum, magnitude * depth * 0x1p-24);
    }
}

TEST_P(Examples, RowSumOfEveryTypeIsWithinItsBound) {
    from_many_seeds([&] {
        for (const std::int64_t columns : {GetParam(), GetParam() / 8 * 8}) {
            check_row_sum<float>(gpu, columns, [&] { return draw(); });
            check_row_sum<f16>(gpu, columns, [&] { return draw(); });
            check_row_sum<bf16>(gpu, columns, [&] { return draw(); });
        }
    });
}

TEST_P(Examples, TransposeIsExact) {
    const std::int64_t rows = 35, columns = GetParam();
    from_many_seeds([&] {
        Array<float> x(rows * columns);
        for (float& value : x) value = draw();
        Array<float> y(rows * columns, NAN);
        test_kernels::transpose(gpu, x.data(), y.data(), rows, columns);
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < columns; ++j) ASSERT_EQ(y[j * rows + i], x[i * columns + j]);
    });
}

TEST_P(Examples, PrefixSumIsExact) {
    const std::int64_t rows = 5, columns = GetParam();
    from_many_seeds([&] {
        Array<int> x(rows * columns);
        for (int& value : x) value = static_cast<int>(random() % 100);
        Array<int> y(rows * columns, -1);
        test_kernels::prefix_sum(gpu, x.data(), y.data(), rows, columns);
        for (std::int64_t row = 0; row < rows; ++row) {
            int sum = 0;
            for (std::int64_t i = 0; i < columns; ++i)
                ASSERT_EQ(y[row * columns + i], sum += x[row * columns + i]) << row << ' ' << i;
        }
    });
}

template <class T>
void check_matmul(Emulator& gpu, std::int64_t m, std::int64_t n, std::int64_t k, auto draw) {
    Array<T> a(m * k), b(n * k);
    Array<float> c(m * n, NAN);
    for (T& value : a) value = kernels::device::rounded<T>(draw());
    for (T& value : b) value = kernels::device::rounded<T>(draw());
    test_kernels::matmul(gpu, a.data(), b.data(), c.data(), m, n, k);
    for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0, magnitude = 0;
            for (std::int64_t l = 0; l < k; ++l) {
                const double term =
                    double{kernels::device::as_float(a[i * k + l])} * kernels::device::as_float(b[j * k + l]);
                sum += term;
                magnitude += std::abs(term);
            }
            ASSERT_NEAR(c[i * n + j], sum, magnitude * static_cast<double>(k + 1) * 0x1p-24) << i << ' ' << j;
        }
    }
}

TEST_P(Examples, MatmulOnTensorCoresIsWithinItsBound) {
    const std::int64_t size = GetParam();
    from_many_seeds([&] {
        check_matmul<f16>(gpu, 17, 33, size, [&] { return draw(); });
        check_matmul<bf16>(gpu, size, 5, 31, [&] { return draw(); });
    });
}

TEST_P(Examples, HistogramCountsEverything) {
    from_many_seeds([&] {
        Array<int> x(GetParam());
        std::vector<int> expected(64);
        for (int& value : x) ++expected[value = static_cast<int>(random() % 64)];
        Array<int> bins(64, 0);
        test_kernels::histogram(gpu, x.data(), bins.data(), GetParam());
        EXPECT_TRUE(std::equal(bins.begin(), bins.end(), expected.begin()));
    });
}

}  // namespace examples_test
}  // namespace headroom::simt
