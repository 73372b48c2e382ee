#include <headroom/core/test/agreement.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::test {

namespace {

const char* name_of(Layout layout) {
    constexpr const char* names[] = {"contiguous", "permuted", "transposed", "strided"};
    return names[static_cast<int>(layout)];
}

}  // namespace

Values run(Context& context, const OpEntry& op, const ErasedSample& sample, const std::vector<Tensor>& inputs,
           const Seed& seed) {
    std::vector<Tensor> outputs = call(context, op, sample, inputs);
    Values result;
    for (const Tensor& y : outputs) result.outputs.push_back(y.to_vector<double>());
    result.gradients = gradients(context, std::move(outputs), inputs, seed);
    return result;
}

Scales conditions(Context& context, const OpEntry& op, const ErasedSample& sample, const std::vector<HostInput>& inputs,
                  const Values& expected, const Seed& seed) {
    constexpr double error = 0x1p-24;
    Scales scales;
    for (const auto& array : expected.outputs) scales.outputs.push_back(largest(array));
    for (const auto& array : expected.gradients) scales.gradients.push_back(largest(array));
    const auto measure = [&](const Arrays& a, const Arrays& b, std::vector<double>& found) {
        for (std::size_t i = 0; i < a.size(); ++i) {
            for (std::size_t k = 0; k < a[i].size(); ++k) {
                found[i] = std::max(found[i], std::abs(a[i][k] - b[i][k]) / error);
            }
        }
    };
    std::mt19937_64 random(seed.value);
    for (int draw = 0; draw < 8; ++draw) {
        auto disturbed = inputs;
        for (HostInput& input : disturbed) {
            if (!is_floating(input.what)) continue;
            for (double& value : input.values) value *= random() & 1u ? 1 + error : 1 - error;
        }
        Seed projection = seed;
        projection.projection_error = error;
        projection.error_draw = random();
        const auto placed = place_all(context, disturbed, Dtype::f64, Layout::contiguous);
        const Values other = run(context, op, sample, placed, projection);
        measure(other.outputs, expected.outputs, scales.outputs);
        measure(other.gradients, expected.gradients, scales.gradients);
    }
    return scales;
}

void expect_close(const Arrays& actual, const Arrays& expected, double relative, const std::string& what,
                  const std::vector<double>& scales) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::size_t count = i < actual.size() ? actual[i].size() : 0;
        if (count != expected[i].size()) {
            throw Error(fmt::format("{} {} has {} elements, not {}", what, i, count, expected[i].size()));
        }
        const double bound = relative * (scales.empty() ? largest(expected[i]) : scales[i]);
        for (std::size_t k = 0; k < count; ++k) {
            const double got = actual[i][k], want = expected[i][k];
            if (std::abs(got - want) <= bound || got == want || (std::isnan(got) && std::isnan(want))) continue;
            throw Error(
                fmt::format("{} {}, element {}: {}, not {}; it may be off by {:.2g}", what, i, k, got, want, bound));
        }
    }
}

double terms(const ErasedSample& sample) {
    std::int64_t count = 16;
    for (const SampleInput& input : sample.inputs) count += input.shape.numel();
    return static_cast<double>(count);
}

void expect_agreement(Context& context, Context& reference, const OpEntry& op, Dtype dtype,
                      const std::vector<Layout>& layouts, const Seed& seed) {
    for (const ErasedSample& sample : accepted(op)) {
        auto inputs = draw(sample, seed);
        const auto rounded = place_all(reference, inputs, dtype, Layout::contiguous);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (inputs[i].what.defined) inputs[i].values = rounded[i].to_vector<double>();
        }
        const auto exact = place_all(reference, inputs, Dtype::f64, Layout::contiguous);
        const Values expected = run(reference, op, sample, exact, seed);
        const double steps = terms(sample) * epsilon(dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32);
        const double bound = steps + (is_half(dtype) ? 8 * epsilon(dtype) : 0.0);
        Scales scales = conditions(reference, op, sample, inputs, expected, seed);
        if (is_half(dtype)) scales.gradients.assign(scales.gradients.size(), largest(scales.gradients));
        for (const Layout layout : layouts) {
            const std::string what =
                fmt::format("{}, {}, {}", describe(op, sample, seed), name(dtype), name_of(layout));
            const Values actual = run(context, op, sample, place_all(context, inputs, dtype, layout), seed);
            expect_close(actual.outputs, expected.outputs, bound, what + ": output", scales.outputs);
            expect_close(actual.gradients, expected.gradients, bound, what + ": gradient", scales.gradients);
        }
    }
}

}  // namespace headroom::test
