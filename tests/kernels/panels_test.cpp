// Products from packed panels, which processors with AVX-512 leave to oneDNN: called as such, on any processor.
#include <headroom/kernels/matmul/internal/panels.hpp>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom::kernels {
namespace panels_test {

/// A random product of small integers in arrays with gaps, which must stay as they are, and what it has to give.
template <class T>
class Trial {
  public:
    Trial(std::mt19937_64& random, std::int64_t m, std::int64_t n, std::int64_t k)
        : random_(random), m_(m), n_(n), k_(k) {
        const auto operand = [&](std::int64_t rows, std::int64_t columns, std::vector<T>& values) {
            const std::int64_t gap = below(3), step = below(4) == 0 ? 2 : 1;  // of the shorter stride
            const bool transposed = below(2) == 1;
            const std::int64_t row = (transposed ? rows : columns) * step + gap;
            values.resize(static_cast<std::size_t>((transposed ? columns : rows) * row + 1));
            for (T& value : values) value = static_cast<T>(below(7) - 3);
            View view = contiguous_view(reinterpret_cast<std::byte*>(values.data()), dtype_of<T>, {rows, columns});
            view.strides[0] = transposed ? step : row;
            view.strides[1] = transposed ? row : step;
            return view;
        };
        matmul.a = operand(m, k, a_);
        matmul.b = operand(k, n, b_);
        c_row_ = n + below(2) * 5;
        c_.resize(static_cast<std::size_t>(m * c_row_));
        for (T& value : c_) value = static_cast<T>(below(9) - 4);
        matmul.c = contiguous_view(reinterpret_cast<std::byte*>(c_.data()), dtype_of<T>, {m, n});
        matmul.c.strides[0] = c_row_;
        const float betas[] = {0.0f, 1.0f, 0.5f};
        matmul.beta = betas[below(3)];
        if (below(2) == 1) {
            bias_.resize(static_cast<std::size_t>(n));
            for (T& value : bias_) value = static_cast<T>(below(5) - 2);
            matmul.bias = contiguous_view(reinterpret_cast<std::byte*>(bias_.data()), dtype_of<T>, {n});
        }
        if (below(2) == 1) matmul.activation = Activation::relu;
    }

    /// With the gaps between its rows.
    std::vector<T> expected() const {
        std::vector<T> result = c_;
        for (std::int64_t i = 0; i < m_; ++i) {
            for (std::int64_t j = 0; j < n_; ++j) {
                T& c = result[static_cast<std::size_t>(i * c_row_ + j)];
                T sum = matmul.beta == 0 ? T{0} : static_cast<T>(matmul.beta) * c;
                for (std::int64_t p = 0; p < k_; ++p) sum += *at(matmul.a, i, p) * *at(matmul.b, p, j);
                if (!bias_.empty()) sum += bias_[static_cast<std::size_t>(j)];
                c = matmul.activation == Activation::relu ? std::max(sum, T{0}) : sum;
            }
        }
        return result;
    }
    std::vector<T> computed(int threads) {
        const std::vector<T> before = c_;
        if (matmul.beta == 0) {  // it must not be read
            for (std::int64_t i = 0; i < m_; ++i)
                std::fill_n(c_.begin() + i * c_row_, n_, std::numeric_limits<T>::quiet_NaN());
        }
        const Problem problem = reduce(matmul);
        EXPECT_TRUE(takes_panels(problem));
        StreamState state;
        CpuStream stream{threads, &state};
        const std::size_t bytes = panels_scratch(threads, problem);
        std::vector<std::byte> scratch(bytes + 128, std::byte{0xa5});
        auto* const aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
        panels_matmul(stream, problem, aligned);
        for (std::byte* end = aligned + bytes; end < scratch.data() + scratch.size(); ++end)
            EXPECT_EQ(*end, std::byte{0xa5}) << "behind the scratch";
        std::vector<T> result = std::move(c_);
        c_ = before;
        matmul.c.data = reinterpret_cast<std::byte*>(c_.data());
        return result;
    }

    Matmul matmul;

  private:
    static const T* at(const View& view, std::int64_t i, std::int64_t j) {
        return view.as<const T>() + i * view.stride(0) + j * view.stride(1);
    }
    std::int64_t below(std::int64_t end) {
        return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
    }

    std::mt19937_64& random_;
    std::int64_t m_, n_, k_, c_row_ = 0;
    std::vector<T> a_, b_, c_, bias_;
};

template <class T>
class Panels : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Panels, Types);

/// Sums of integers are exact in any order, so that bits can be compared.
TYPED_TEST(Panels, GiveExactSumsOfAllShapesLayoutsAndThreads) {
    std::mt19937_64 random(11);
    // 192 at a time are summed up; 24 and 72 leave one vector of a panel.
    const std::int64_t sizes[] = {1,  2,  5,   6,   7,   13,  16,  17,  24,  31,  33, 64,
                                  65, 72, 100, 130, 192, 257, 300, 384, 401, 513, 800};
    for (int i = 0; i < 200; ++i) {
        const auto size = [&] { return sizes[random() % std::size(sizes)]; };
        const std::int64_t m = size(), n = size(), k = size();
        if (m * n * k < 1 << 16 || m * n * k > 1 << 23) continue;
        Trial<TypeParam> trial(random, m, n, k);
        SCOPED_TRACE(testing::Message() << i << ": " << m << " x " << n << " x " << k);
        const std::vector<TypeParam> expected = trial.expected();
        for (const int threads : {1, 2, 5}) EXPECT_EQ(trial.computed(threads), expected) << threads;
        if (this->HasFailure()) return;
    }
}

TYPED_TEST(Panels, LeaveWhatIsSmallOrHasBatchesToOthers) {
    std::mt19937_64 random(12);
    Trial<TypeParam> trial(random, 64, 64, 64);
    Problem problem = reduce(trial.matmul);
    EXPECT_TRUE(takes_panels(problem));
    Problem small = problem, batches = problem, columns = problem, half = problem;
    small.k = 15;
    batches.batch_rank = 1;
    columns.c_column = 2;
    half.result = Dtype::bf16;
    for (const Problem* other : {&small, &batches, &columns, &half}) EXPECT_FALSE(takes_panels(*other));
}

}  // namespace panels_test
}  // namespace headroom::kernels
