#pragma once
// Random products for tests: every order of axes, padding, batches that fold, repeat or stand apart, strides of 0, and
// what training needs beside them. Elements are small integers, so that results are exact in every dtype and can be
// compared bit for bit.
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
#include <headroom/tests/kernels/matmul_trial.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels::test {

class RandomMatmul {
  public:
    /// `trains`: with inner or sums, and of sizes that cuBLASLt takes more often than not.
    RandomMatmul(std::mt19937_64& random, Dtype operand, Dtype result, bool trains = false)
        : random_(random), trains_(trains) {
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
        matmul_.beta = chance(0.5) ? 0.0f : chance(0.5) ? 1.0f : 0.5f;
        if (trains) train(result, c_shape);
        outputs_ = {{matmul_.c, &c_, c_}};
        if (matmul_.has_inner() && !matmul_.derivative) outputs_.push_back({matmul_.inner, &inner_, inner_});
        if (matmul_.has_outer()) outputs_.push_back({matmul_.outer, &outer_, outer_});
        if (matmul_.has_sums()) outputs_.push_back({matmul_.sums, &sums_, sums_});
    }
    RandomMatmul(const RandomMatmul&) = delete;
    RandomMatmul& operator=(const RandomMatmul&) = delete;

    const kernels::Matmul& matmul() const { return matmul_; }

    /// The elements of c in the order of its shape, then those of what else was written: inner, outer, sums.
    std::vector<double> result() const {
        std::vector<double> values;
        for (const Output& output : outputs_) {
            for (std::int64_t i = 0; i < output.view.numel(); ++i)
                values.push_back(element(output.view.data, output.view.dtype, offset_of(output.view, i)));
        }
        return values;
    }
    /// What they must become; to be called before they do.
    std::vector<double> expected() const {
        std::vector<double> values;
        const View& c = matmul_.c;
        const bool forward = matmul_.has_inner() && !matmul_.derivative;
        for (std::int64_t at = 0; at < c.numel(); ++at) {
            const double sum = sum_of(at);
            values.push_back(rounded(matmul_.derivative ? sum * slope(matmul_.activation, inner_of(at))
                                                        : activated(matmul_.activation, sum)));
        }
        for (std::int64_t at = 0; forward && at < c.numel(); ++at) values.push_back(rounded(sum_of(at)));
        for (std::int64_t at = 0; matmul_.has_outer() && at < c.numel(); ++at)
            values.push_back(rounded(activated(matmul_.activation, inner_of(at))));
        for (std::int64_t i = 0; matmul_.has_sums() && i < matmul_.sums.size(0); ++i) {
            const View &a = matmul_.a, &sums = matmul_.sums;
            double sum = matmul_.sums_beta * element(sums.data, sums.dtype, offset_of(sums, i));
            for (std::int64_t p = 0; p < a.size(1); ++p)
                sum += element(a.data, a.dtype, offset_of(a, i * a.size(1) + p));
            values.push_back(sum);
        }
        return values;
    }
    /// True if the memory between the elements of what was written is as it was.
    bool gaps_untouched() const {
        for (const Output& output : outputs_) {
            std::vector<std::byte> now = *output.memory;
            const std::size_t bytes = size_of(output.view.dtype);
            for (std::int64_t i = 0; i < output.view.numel(); ++i) {
                const auto first =
                    static_cast<std::ptrdiff_t>(offset_of(output.view, i)) * static_cast<std::ptrdiff_t>(bytes);
                std::copy_n(output.before.begin() + first, bytes, now.begin() + first);
            }
            if (now != output.before) return false;
        }
        return true;
    }
    std::string to_string() const {
        return describe(matmul_.a) + " x " + describe(matmul_.b) + " -> " + describe(matmul_.c) + " bias " +
               describe(matmul_.bias) + " activation " + std::to_string(static_cast<int>(matmul_.activation)) +
               " beta " + std::to_string(matmul_.beta) + (matmul_.derivative ? " derivative" : "") + " inner " +
               describe(matmul_.inner) + " sums " + describe(matmul_.sums) + " beta " +
               std::to_string(matmul_.sums_beta);
    }

  private:
    bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
    std::int64_t below(std::int64_t bound) {
        return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random_);
    }
    std::int64_t size() { return chance(0.15) ? 1 : chance(trains_ ? 0.7 : 0.2) ? 8 : 2 + below(6); }

    /// Asks for what training needs.
    void train(Dtype result, const Shape& c_shape) {
        if (c_shape.rank() == 2 && matmul_.a.rank() == 2 && chance(0.5)) {
            if (chance(0.5)) matmul_.activation = kernels::Activation::none, matmul_.bias = {};
            matmul_.sums = view(chance(0.7) ? result : matmul_.a.dtype, {c_shape[0]}, sums_, false);
            matmul_.sums_beta = chance(0.6) ? 0.0f : chance(0.5) ? 1.0f : 0.5f;
            return;
        }
        matmul_.beta = 0;
        if (chance(0.7)) matmul_.activation = kernels::Activation::gelu_tanh;
        matmul_.inner = view(result, c_shape, inner_, false);
        if (chance(0.7)) {  // as c lies
            inner_.resize(c_.size());
            std::copy(c_.begin(), c_.end(), inner_.begin());
            matmul_.inner.strides = matmul_.c.strides;
            matmul_.inner.data = inner_.data();
        }
        matmul_.derivative = chance(0.5);
        if (!matmul_.derivative) return;
        matmul_.bias = {};
        if (chance(0.5)) matmul_.outer = view(result, c_shape, outer_, false);
    }

    /// a x b + beta c + bias for element `at` of c.
    double sum_of(std::int64_t at) const {
        const View &a = matmul_.a, &b = matmul_.b, &c = matmul_.c;
        const std::int64_t m = c.size(c.rank() - 2), n = c.size(c.rank() - 1), k = a.size(a.rank() - 1);
        const std::int64_t batch = at / (m * n), i = at / n % m, j = at % n;
        const std::int64_t a0 = matrix_start(a, c.shape, batch), b0 = matrix_start(b, c.shape, batch);
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
            sum += element(a.data, a.dtype, offset_of(a, a0 + i * k + p)) *
                   element(b.data, b.dtype, offset_of(b, b0 + p * n + j));
        if (matmul_.beta != 0) sum += matmul_.beta * element(outputs_[0].before.data(), c.dtype, offset_of(c, at));
        if (matmul_.has_bias()) sum += element(matmul_.bias.data, matmul_.bias.dtype, j * matmul_.bias.stride(0));
        return sum;
    }
    double inner_of(std::int64_t at) const {
        return element(matmul_.inner.data, matmul_.inner.dtype, offset_of(matmul_.inner, at));
    }
    double rounded(double value) const {
        double buffer[1];
        set_element(buffer, matmul_.c.dtype, 0, value);
        return element(buffer, matmul_.c.dtype, 0);
    }

    View view(Dtype dtype, const Shape& shape, std::vector<std::byte>& memory, bool repeats) {
        std::vector<int> order(static_cast<std::size_t>(shape.rank()));  // from the outermost in memory
        std::iota(order.begin(), order.end(), 0);
        if (chance(0.3)) std::shuffle(order.begin(), order.end(), random_);
        if (order.size() > 1 && chance(0.5)) std::swap(order[order.size() - 1], order[order.size() - 2]);
        View view{nullptr, dtype, shape, contiguous_strides(shape)};
        std::int64_t room = chance(trains_ ? 0.02 : 0.1) ? 2 : 1;
        for (std::size_t i = order.size(); i-- > 0;) {
            view.strides[order[i]] = room;
            room *= std::max<std::int64_t>(1, shape[order[i]]);
            if (chance(trains_ ? 0.05 : 0.2)) room += 1 + below(3);
        }
        if (repeats && chance(0.1)) view.strides[static_cast<int>(below(shape.rank()))] = 0;
        memory.resize(static_cast<std::size_t>(room) * size_of(dtype));
        for (std::int64_t i = 0; i < room; ++i) set_element(memory.data(), dtype, i, static_cast<double>(below(7) - 3));
        view.data = memory.data();
        return view;
    }

    struct Output {
        View view;
        const std::vector<std::byte>* memory;
        std::vector<std::byte> before;
    };

    std::mt19937_64& random_;
    bool trains_;
    std::vector<std::byte> a_, b_, c_, bias_, inner_, outer_, sums_;
    kernels::Matmul matmul_;
    std::vector<Output> outputs_;
};

}  // namespace headroom::kernels::test
