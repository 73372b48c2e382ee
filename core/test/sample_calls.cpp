#include <headroom/core/test/sample_calls.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <string_view>

#include <fmt/format.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/kernels/copy/copy.hpp>

namespace headroom::test {

namespace {

using Fill = SampleInput::Fill;

std::vector<ErasedSample> some_samples(const OpEntry& op, bool rejected) {
    std::vector<ErasedSample> result;
    for (ErasedSample& sample : op.samples()) {
        if (sample.rejected.empty() != rejected) result.push_back(std::move(sample));
    }
    return result;
}

/// Values that lie on a lattice, in random order; each input has a lattice of its own.
std::vector<double> distinct_values(std::size_t count, std::size_t input, std::mt19937_64& random) {
    std::vector<double> values(count);
    const double middle = static_cast<double>(count / 2) - 0.5 - 0.15 * static_cast<double>(input);
    for (std::size_t i = 0; i < count; ++i) values[i] = 0.125 * (static_cast<double>(i) - middle);
    std::shuffle(values.begin(), values.end(), random);
    return values;
}

double draw_one(const SampleInput& what, std::mt19937_64& random) {
    switch (what.fill) {
        case Fill::positive:
            return std::uniform_real_distribution(0.5, 2.0)(random);
        case Fill::unit:
            return std::uniform_real_distribution(0.05, 0.95)(random);
        case Fill::halves:
            return std::uniform_int_distribution(-3, 2)(random) + 0.5;
        case Fill::index:
            return static_cast<double>(std::uniform_int_distribution<std::int64_t>(0, what.bound - 1)(random));
        case Fill::boolean:
            return static_cast<double>(random() & 1u);
        default:
            return std::normal_distribution()(random);
    }
}

/// A larger array in which the elements lie apart, and the geometry that finds them.
struct Spread {
    std::vector<double> values;
    Shape shape;
};

Spread spread(const HostInput& input, double between) {
    const Shape& inner = input.what.shape;
    Spread result;
    for (int i = 0; i < inner.rank(); ++i)
        result.shape.push_back(i + 1 < inner.rank() ? inner[i] + 2 : 2 * inner[i] + 1);
    result.values.assign(static_cast<std::size_t>(result.shape.numel()), between);
    const Strides strides = contiguous_strides(result.shape);
    for (std::size_t i = 0; i < input.values.size(); ++i) {
        std::int64_t rest = static_cast<std::int64_t>(i);
        std::int64_t position = 0;
        for (int axis = inner.rank() - 1; axis >= 0; --axis) {
            const std::int64_t step = axis + 1 < inner.rank() ? 1 : 2;
            position += (1 + step * (rest % inner[axis])) * strides[axis];
            rest /= inner[axis];
        }
        result.values[static_cast<std::size_t>(position)] = input.values[i];
    }
    return result;
}

/// The elements in the order of memory when the first and the last axis change places.
std::vector<double> transposed_values(const HostInput& input) {
    const Shape& shape = input.what.shape;
    const std::int64_t rows = shape[0];
    const std::int64_t columns = shape.back();
    const std::int64_t middle = rows * columns == 0 ? 0 : shape.numel() / rows / columns;
    std::vector<double> result(input.values.size());
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t m = 0; m < middle; ++m) {
            for (std::int64_t j = 0; j < columns; ++j) {
                result[static_cast<std::size_t>((j * middle + m) * rows + i)] =
                    input.values[static_cast<std::size_t>((i * middle + m) * columns + j)];
            }
        }
    }
    return result;
}

Tensor leaf(Context& context, const std::vector<double>& values, const Shape& shape, Dtype dtype) {
    const NoGradGuard no_grad(context);
    if (dtype == Dtype::i64 || dtype == Dtype::i32) {  // not through f64: a value between may be any
        const std::vector<std::int64_t> whole(values.begin(), values.end());
        return cast(context.from_host(whole, shape), dtype);
    }
    return cast(context.from_host(values, shape), dtype);
}

Tensor view_of(Context& context, const HostInput& input, Dtype dtype, Layout layout, bool gradient) {
    const Shape& shape = input.what.shape;
    const auto marked = [&](Tensor tensor) { return gradient ? std::move(tensor).requires_grad_() : tensor; };
    if (layout == Layout::transposed && shape.rank() >= 2) {
        Shape stored = shape;
        std::swap(stored[0], stored[shape.rank() - 1]);
        return marked(leaf(context, transposed_values(input), stored, dtype)).transpose(0, -1);
    }
    if (layout == Layout::strided && shape.rank() >= 1) {
        const double between = kernels::is_floating(dtype) ? std::numeric_limits<double>::quiet_NaN()
                               : dtype == Dtype::boolean   ? 1.0
                                                           : 1e9;
        const Spread larger = spread(input, between);
        Tensor view = marked(leaf(context, larger.values, larger.shape, dtype));
        for (int axis = 0; axis < shape.rank(); ++axis) {
            const int step = axis + 1 < shape.rank() ? 1 : 2;
            view = view.slice(axis, 1, 1 + step * shape[axis], step);
        }
        return view;
    }
    Tensor whole = leaf(context, input.values, shape, dtype);
    if (layout == Layout::permuted && shape.rank() >= 2) {
        Strides order = contiguous_strides(shape);
        order[shape.rank() > 2 ? 1 : 0] = 0;
        const Array array = context.exec().empty_like(shape, order, dtype, Category::inputs);
        context.exec().launch([&](auto& s) { kernels::copy(s, whole.array().view(), array.view()); });
        whole = context.from_array(array);
    }
    return marked(std::move(whole));
}

}  // namespace

Seed::Seed() : value(1) {
    const char* const text = std::getenv("HEADROOM_TEST_SEED");
    if (!text || !*text) return;
    value = std::string_view(text) == "random" ? std::random_device{}() : std::strtoull(text, nullptr, 10);
}

std::vector<ErasedSample> accepted(const OpEntry& op) { return some_samples(op, false); }

std::vector<ErasedSample> refused(const OpEntry& op) { return some_samples(op, true); }

std::string describe(const OpEntry& op, const ErasedSample& sample, const Seed& seed) {
    std::string shapes;
    for (const SampleInput& input : sample.inputs) {
        shapes += ' ';
        shapes += input.defined ? input.shape.to_string() : "none";
    }
    return fmt::format("{}, {}: inputs{}, HEADROOM_TEST_SEED={}", op.table->info.name, sample.label, shapes,
                       seed.value);
}

bool is_floating(const SampleInput& input) {
    return input.defined && input.fill != Fill::index && input.fill != Fill::boolean;
}

bool has_gradient(const SampleInput& input) { return is_floating(input) && !input.constant; }

std::vector<HostInput> draw(const ErasedSample& sample, const Seed& seed) {
    std::vector<HostInput> result;
    for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
        const SampleInput& what = sample.inputs[i];
        HostInput& input = result.emplace_back(HostInput{what, {}});
        if (!what.defined) continue;
        std::seed_seq mix{seed.value, std::uint64_t{i}, std::hash<std::string>{}(sample.label)};
        std::mt19937_64 random(mix);
        const auto count = static_cast<std::size_t>(what.shape.numel());
        if (what.fill == Fill::distinct) {
            input.values = distinct_values(count, i, random);
        } else {
            for (std::size_t k = 0; k < count; ++k) input.values.push_back(draw_one(what, random));
        }
    }
    return result;
}

std::vector<double> draw_projection(std::int64_t elements, std::size_t i, const Seed& seed) {
    std::seed_seq mix{seed.value, std::uint64_t{i} + 1000};
    std::mt19937_64 random(mix);
    std::normal_distribution<double> normal;
    std::vector<double> values(static_cast<std::size_t>(elements));
    for (double& value : values) value = normal(random);
    std::mt19937_64 signs(seed.error_draw);
    for (double& value : values) value *= signs() & 1u ? 1 + seed.projection_error : 1 - seed.projection_error;
    return values;
}

Tensor place(Context& context, const HostInput& input, Dtype dtype, Layout layout, bool differentiable, Dtype index) {
    if (!input.what.defined) return {};
    if (input.what.fill == Fill::index) dtype = index;
    if (input.what.fill == Fill::boolean) dtype = Dtype::boolean;
    return view_of(context, input, dtype, layout, differentiable && has_gradient(input.what));
}

std::vector<Tensor> place_all(Context& context, const std::vector<HostInput>& inputs, Dtype dtype, Layout layout,
                              bool differentiable) {
    std::vector<Tensor> result;
    for (const HostInput& input : inputs) result.push_back(place(context, input, dtype, layout, differentiable));
    return result;
}

std::vector<Tensor> call(Context& context, const OpEntry& op, const ErasedSample& sample, std::vector<Tensor> inputs) {
    std::vector<Tensor> outputs(op.table->n_outputs);
    apply(context.tape(), *op.table, sample.attrs.data(), inputs, outputs);
    return outputs;
}

Tensor projected(Context& context, const std::vector<Tensor>& outputs, const Seed& seed) {
    Tensor total;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Tensor& y = outputs[i];
        if (!y.requires_grad()) continue;
        const Tensor r = leaf(context, draw_projection(y.numel(), i, seed), y.shape(), y.dtype());
        Tensor part = sum(mul(y, r));
        total = total.defined() ? total + part : part;
    }
    return total;
}

std::vector<std::vector<double>> gradients(Context& context, const OpEntry& op, const ErasedSample& sample,
                                           const std::vector<Tensor>& inputs, const Seed& seed) {
    return gradients(context, call(context, op, sample, inputs), inputs, seed);
}

std::vector<std::vector<double>> gradients(Context& context, std::vector<Tensor> outputs,
                                           const std::vector<Tensor>& inputs, const Seed& seed) {
    Tensor loss = projected(context, outputs, seed);
    outputs.clear();  // backward finds none that a handle keeps
    if (loss.defined()) backward(loss);
    std::vector<std::vector<double>> result;
    for (const Tensor& input : inputs) {
        result.emplace_back();
        if (!input.defined()) continue;
        const Tensor gradient = input.grad();
        if (gradient.defined()) result.back() = gradient.to_vector<double>();
    }
    return result;
}

double largest(const std::vector<double>& values) {
    double result = 0.0;
    for (const double value : values) result = std::max(result, std::abs(value));
    return result;
}

}  // namespace headroom::test
