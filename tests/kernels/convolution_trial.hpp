#pragma once
// A convolution for tests, with what must come out: sums in f64 over all that meets, and bounds from their length.
//
//     const ConvolutionCase of{.images = 2, .inputs = 3, .outputs = 5, .h = {.size = 9, .kernel = 3}, .w = {.size = 7}};
//     Trial trial = convolution_trial(variant, random, of);
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels::test {

struct ConvolutionCase {
    struct Axis {
        std::int64_t size = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
        std::int64_t output() const { return convolved_size(size, kernel, stride, padding, dilation); }
    };
    std::int64_t images = 1, groups = 1, inputs = 1, outputs = 1;
    Axis h, w;
    ConvolutionPass pass = ConvolutionPass::forward;
    bool channels_last = true;  ///< in memory, in the layout "contiguous"; else row-major
    float beta = 0;
    bool bias = false;
    Activation activation = Activation::none;
    bool to_f32 = false;  ///< what is written; else it has the dtype of what is read
};

/// [n, c, h, w] as an array of the test holds it, and the view of that.
inline Shape in_memory(const Shape& s, bool channels_last) { return channels_last ? Shape{s[0], s[2], s[3], s[1]} : s; }
inline View from_memory(View x, bool channels_last) {
    if (!channels_last) return x;
    x.shape = {x.shape[0], x.shape[3], x.shape[1], x.shape[2]};
    x.strides = {x.strides[0], x.strides[3], x.strides[1], x.strides[2]};
    return x;
}

/// For in: what is read, in the order x, weight, y, and the bias; out: what is written.
inline Convolution convolution_of(const ConvolutionCase& of, const Views& in, const Views& out) {
    const auto pass = static_cast<std::size_t>(of.pass);  // forward, data, weight: writes y, x, weight
    const auto at = [&](std::size_t i) { return from_memory(in[i], of.channels_last); };
    const View written = from_memory(out[0], of.channels_last);
    Convolution c{.x = pass == 1 ? written : at(0),
                  .weight = pass == 2 ? written : at(pass == 0 ? 1 : 0),
                  .y = pass == 0 ? written : at(1),
                  .steps = {.stride = {of.h.stride, of.w.stride},
                            .padding = {of.h.padding, of.w.padding},
                            .dilation = {of.h.dilation, of.w.dilation},
                            .groups = of.groups},
                  .pass = of.pass,
                  .beta = of.beta,
                  .activation = of.activation};
    if (of.bias) c.bias = in[2];
    return c;
}

inline Trial convolution_trial(const Variant& v, Random& random, const ConvolutionCase& of) {
    const auto& [images, groups, inputs, outputs, h, w, pass, last, beta, has_bias, activation, to_f32] = of;
    const std::int64_t oh = h.output(), ow = w.output();
    const Shape x{images, groups * inputs, h.size, w.size}, weight{groups * outputs, inputs, h.kernel, w.kernel},
        y{images, groups * outputs, oh, ow};
    const Shape written = pass == ConvolutionPass::forward ? y : pass == ConvolutionPass::data ? x : weight;
    Trial trial;
    if (pass != ConvolutionPass::data) trial.input(v, in_memory(x, last), normal(random));
    if (pass != ConvolutionPass::weight) trial.input(v, in_memory(weight, last), normal(random));
    if (pass != ConvolutionPass::forward) trial.input(v, in_memory(y, last), normal(random));
    trial.input(v, {written[1]}, normal(random));
    Output& output = trial.output(to_f32 ? Dtype::f32 : v.dtype, in_memory(written, last), v.out,
                                  beta == 0 ? Fill{} : normal(random));

    // In the order of memory, as the arrays are: where [a, b, c, d] of a shape is.
    const auto at = [last = last](const Shape& s, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
        return static_cast<std::size_t>(last ? ((a * s[2] + c) * s[3] + d) * s[1] + b
                                             : ((a * s[1] + b) * s[2] + c) * s[3] + d);
    };
    const auto count = static_cast<std::size_t>(written.numel());
    std::vector<double> sums(count), sizes(count), terms(count);
    const std::vector<double> first = trial.in[0].values(), second = trial.in[1].values(), bias = trial.in[2].values();
    const auto add = [&](std::size_t to, std::size_t a, std::size_t b) {
        const double product = first[a] * second[b];
        sums[to] += product, sizes[to] += std::abs(product), terms[to] += 1;
    };
    for (std::int64_t n = 0; n < images; ++n) {
        for (std::int64_t o = 0; o < groups * outputs; ++o) {
            for (std::int64_t i = 0; i < inputs; ++i) {
                const std::int64_t channel = o / outputs * inputs + i;
                for (std::int64_t position = 0; position < oh * ow * h.kernel * w.kernel; ++position) {
                    const std::int64_t b = position % w.kernel, a = position / w.kernel % h.kernel;
                    const std::int64_t c = position / w.kernel / h.kernel % ow, r = position / w.kernel / h.kernel / ow;
                    const std::int64_t row = r * h.stride + a * h.dilation - h.padding;
                    const std::int64_t column = c * w.stride + b * w.dilation - w.padding;
                    if (row < 0 || row >= h.size || column < 0 || column >= w.size) continue;
                    const std::size_t of_x = at(x, n, channel, row, column), of_w = at(weight, o, i, a, b),
                                      of_y = at(y, n, o, r, c);
                    if (pass == ConvolutionPass::forward) add(of_y, of_x, of_w);
                    if (pass == ConvolutionPass::data) add(of_x, of_w, of_y);
                    if (pass == ConvolutionPass::weight) add(of_w, of_x, of_y);
                }
            }
        }
    }
    const Shape memory = in_memory(written, last);
    for (std::size_t i = 0; i < count; ++i) {
        const auto index = static_cast<std::int64_t>(i);
        const auto channel =
            static_cast<std::size_t>(last ? index % memory[3] : index / (memory[2] * memory[3]) % memory[1]);
        double value = sums[i], size = sizes[i];
        if (beta != 0) value += beta * output.before(), size += std::abs(beta * output.before());
        if (has_bias) value += bias[channel], size += std::abs(bias[channel]);
        // Each of the additions may be off by the rounding of all that came before; in f32 and f64, of few more parts.
        output.expect(activation == Activation::relu ? std::max(value, 0.0) : value,
                      epsilon(compute_dtype(v.dtype)) * (terms[i] / 8 + 8) * size);
    }
    trial.call = [of](Device& device, const Views& in, const Views& out) {
        device.run<ConvolutionPlan>(convolution_of(of, in, out));
    };
    return trial;
}

/// What f32 sums of `length` products, 128 at a time, err at most as a root of a mean of squares: each of the roundings
/// on the way is off by epsilon / sqrt(12) of a sum that grows with the root of its length. Relative to the results'.
inline double error_of_blocks(double length) { return epsilon(Dtype::f32) * std::sqrt((128 + length / 128) / 24); }

/// The same of a call's results.
inline double error_of(const TestArray& result, const std::vector<double>& expected) {
    double errors = 0, squares = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const double error = result.get(static_cast<std::int64_t>(i)) - expected[i];
        errors += error * error, squares += expected[i] * expected[i];
    }
    return std::sqrt(errors / squares);
}

}  // namespace headroom::kernels::test
