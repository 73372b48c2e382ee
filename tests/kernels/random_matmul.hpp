#pragma once
// Random products for tests: every order of axes, padding, batches that fold, repeat or stand apart, strides of 0.
// Elements are small integers, so that results are exact in every dtype and can be compared bit for bit.
//
//     RandomMatmul random_matmul(random, Dtype::f16, Dtype::f32);
//     const std::vector<double> expected = random_matmul.expected();
//     ... compute random_matmul.matmul() ...
//     EXPECT_EQ(random_matmul.result(), expected);
//     EXPECT_TRUE(random_matmul.gaps_untouched());
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <headroom/tests/kernels/column_major.hpp>
#include <headroom/tests/kernels/matmul_cases.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::test {

class RandomMatmul {
  public:
    RandomMatmul(std::mt19937_64& random, Dtype operand, Dtype result) : random_(random) {
        const std::int64_t m = size(), n = size(), k = chance(0.05) ? 0 : size();
        Shape batch, a_shape, b_shape;
        for (std::int64_t axes = below(4); axes > 0; --axes) batch.push_back(1 + below(3));
        Shape c_shape = batch;
        for (Shape* shape : {&a_shape, &b_shape}) {
            for (std::int64_t i = chance(0.3) ? below(batch.rank() + 1) : 0; i < batch.rank(); ++i)
                shape->push_back(chance(0.3) ? 1 : batch[static_cast<int>(i)]);
        }
        for (const std::int64_t length : {m, k}) a_shape.push_back(length);
        for (const std::int64_t length : {k, n}) b_shape.push_back(length);
        for (const std::int64_t length : {m, n}) c_shape.push_back(length);
        matmul_.a = view(operand, a_shape, a_, true);
        matmul_.b = view(operand, b_shape, b_, true);
        matmul_.c = view(result, c_shape, c_, false);
        if (chance(0.5)) {
            matmul_.bias = view(chance(0.7) ? result : operand, {n}, bias_, false);
            if (n == 1) matmul_.bias.strides[0] = 7;  // does not count
        }
        constexpr kernels::Activation activations[] = {kernels::Activation::none, kernels::Activation::relu,
                                                       kernels::Activation::gelu_tanh, kernels::Activation::gelu_erf};
        if (chance(0.5)) matmul_.activation = activations[below(4)];
        matmul_.alpha = chance(0.5) ? 1.0 : 0.5;
        matmul_.beta = chance(0.5) ? 0.0f : chance(0.5) ? 1.0f : 0.5f;
        before_ = c_;
    }

    const kernels::Matmul& matmul() const { return matmul_; }

    /// The elements of c in the order of its shape.
    std::vector<double> result() const {
        std::vector<double> values;
        for (std::int64_t i = 0; i < matmul_.c.elements(); ++i)
            values.push_back(element(matmul_.c.data, matmul_.c.dtype, offset(matmul_.c, i)));
        return values;
    }
    /// What they must become.
    std::vector<double> expected() const {
        const View &a = matmul_.a, &b = matmul_.b, &c = matmul_.c;
        const std::int64_t m = c.size(c.rank() - 2), n = c.size(c.rank() - 1), k = a.size(a.rank() - 1);
        std::vector<double> values;
        for (std::int64_t at = 0; at < c.elements(); ++at) {
            const std::int64_t batch = at / (m * n), i = at / n % m, j = at % n;
            const std::int64_t a0 = matrix_start(a, c.shape, batch), b0 = matrix_start(b, c.shape, batch);
            double sum = 0;
            for (std::int64_t p = 0; p < k; ++p)
                sum += element(a.data, a.dtype, offset(a, a0 + i * k + p)) *
                       element(b.data, b.dtype, offset(b, b0 + p * n + j));
            sum *= matmul_.alpha;
            if (matmul_.beta != 0) sum += matmul_.beta * element(before_.data(), c.dtype, offset(c, at));
            if (matmul_.has_bias()) sum += element(matmul_.bias.data, matmul_.bias.dtype, j * matmul_.bias.stride(0));
            double rounded;
            set_element(buffer_, c.dtype, 0, activated(matmul_.activation, sum));
            rounded = element(buffer_, c.dtype, 0);
            values.push_back(rounded);
        }
        return values;
    }
    /// True if c's memory between the elements is as it was.
    bool gaps_untouched() const {
        std::vector<std::byte> now = c_;
        const std::size_t bytes = size_of(matmul_.c.dtype);
        for (std::int64_t i = 0; i < matmul_.c.elements(); ++i) {
            const auto first = static_cast<std::size_t>(offset(matmul_.c, i)) * bytes;
            std::copy_n(before_.begin() + static_cast<std::ptrdiff_t>(first), bytes,
                        now.begin() + static_cast<std::ptrdiff_t>(first));
        }
        return now == before_;
    }
    std::string text() const {
        return describe(matmul_.a) + " x " + describe(matmul_.b) + " -> " + describe(matmul_.c) + " bias " +
               describe(matmul_.bias) + " activation " + std::to_string(static_cast<int>(matmul_.activation)) +
               " alpha " + std::to_string(matmul_.alpha) + " beta " + std::to_string(matmul_.beta);
    }

  private:
    bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
    std::int64_t below(std::int64_t bound) {
        return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random_);
    }
    std::int64_t size() { return chance(0.15) ? 1 : 2 + below(6); }

    View view(Dtype dtype, const Shape& shape, std::vector<std::byte>& memory, bool repeats) {
        std::vector<int> order(static_cast<std::size_t>(shape.rank()));  // from the outermost in memory
        std::iota(order.begin(), order.end(), 0);
        if (chance(0.3)) std::shuffle(order.begin(), order.end(), random_);
        if (order.size() > 1 && chance(0.5)) std::swap(order[order.size() - 1], order[order.size() - 2]);
        View view{nullptr, dtype, shape, contiguous_strides(shape)};
        std::int64_t room = chance(0.1) ? 2 : 1;
        for (std::size_t i = order.size(); i-- > 0;) {
            view.strides[order[i]] = room;
            room *= std::max<std::int64_t>(1, shape[order[i]]);
            if (chance(0.2)) room += 1 + below(3);
        }
        if (repeats && chance(0.1)) view.strides[static_cast<int>(below(shape.rank()))] = 0;
        memory.resize(static_cast<std::size_t>(room) * size_of(dtype));
        for (std::int64_t i = 0; i < room; ++i) set_element(memory.data(), dtype, i, static_cast<double>(below(7) - 3));
        view.data = memory.data();
        return view;
    }

    static std::int64_t offset(const View& view, std::int64_t index) {
        std::int64_t result = 0;
        for (int axis = view.rank() - 1; axis >= 0; --axis) {
            result += index % view.shape[axis] * view.strides[axis];
            index /= view.shape[axis];
        }
        return result;
    }

    std::mt19937_64& random_;
    std::vector<std::byte> a_, b_, c_, bias_, before_;
    kernels::Matmul matmul_;
    mutable double buffer_[1] = {};
};

}  // namespace headroom::test
