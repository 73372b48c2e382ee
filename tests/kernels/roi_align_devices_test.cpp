#include <headroom/kernels/roi_align/roi_align.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <headroom/tests/kernels/image_layout.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace roi_align_devices_test {

using namespace test;

struct Regions {
    std::int64_t images, channels, height, width, count, rows, columns;
    RoiAlignOptions options;
    ImageLayout layout{};

    Shape from() const { return {images, channels, height, width}; }
    Shape to() const { return {count, channels, rows, columns}; }
};

/// Of one bin and pixel, with the error of coordinates that are off by some units.
struct Tap {
    std::int64_t bin, pixel;
    double weight, error;
};

struct TapsOfAxis {
    double begin, length;
    std::int64_t bins, samples;
    double error;
    std::vector<Tap> taps;

    /// All samples of all bins, one after the other.
    TapsOfAxis(double low, double high, std::int64_t bins, std::int64_t pixels, const RoiAlignOptions& options,
               double epsilon)
        : bins(bins) {
        const double offset = options.aligned ? 0.5 : 0.0;
        begin = low * options.scale - offset;
        length = high * options.scale - offset - begin;
        if (!options.aligned) length = std::max(length, 1.0);
        const double bin = length / static_cast<double>(bins);
        samples = options.sampling > 0 ? options.sampling : static_cast<std::int64_t>(std::ceil(bin));
        error = 8 * epsilon * (std::abs(low * options.scale) + std::abs(high * options.scale) + 1);
        for (std::int64_t i = 0; i < bins; ++i) {
            for (std::int64_t s = 0; s < samples; ++s) {
                const double each = 1 / static_cast<double>(samples);
                double at = begin + (static_cast<double>(i) + (static_cast<double>(s) + 0.5) * each) * bin;
                if (at < -1 || at > static_cast<double>(pixels)) continue;
                at = std::clamp(at, 0.0, static_cast<double>(pixels - 1));
                const auto first = static_cast<std::int64_t>(at);
                const double rest = at - static_cast<double>(first);
                taps.push_back({i, first, (1 - rest) * each, error * each});
                if (first + 1 < pixels) taps.push_back({i, first + 1, rest * each, error * each});
            }
        }
    }
};

/// Calls `work(r, image, row tap, column tap)` for all boxes that are there.
template <class Work>
void for_each_tap(const TestArray& boxes, const Regions& call, double epsilon, Work&& work) {
    for (std::int64_t r = 0; r < call.count; ++r) {
        const auto number = [&](std::int64_t i) { return boxes.get(5 * r + i); };
        if (number(0) < 0) continue;
        const TapsOfAxis rows(number(2), number(4), call.rows, call.height, call.options, epsilon);
        const TapsOfAxis columns(number(1), number(3), call.columns, call.width, call.options, epsilon);
        for (const Tap& row : rows.taps) {
            for (const Tap& column : columns.taps) work(r, static_cast<std::int64_t>(number(0)), row, column);
        }
    }
}

/// Some of no image, some that reach beyond theirs.
Fill boxes_on(const Regions& call, Random& random) {
    return [&random, call](TestArray& boxes) {
        std::uniform_int_distribution<std::int64_t> image(-1, call.images - 1);
        std::uniform_real_distribution<double> place(-0.4, 1.3);
        for (std::int64_t r = 0; r < call.count; ++r) {
            boxes.set(5 * r, static_cast<double>(image(random)));
            for (int axis = 0; axis < 2; ++axis) {
                const double size = static_cast<double>(axis == 0 ? call.width : call.height) / call.options.scale;
                const double a = size * place(random), b = size * place(random);
                boxes.set(5 * r + 1 + axis, std::min(a, b));
                boxes.set(5 * r + 3 + axis, std::max(a, b));
            }
        }
    };
}

/// A weighted sum in the making.
struct Sums {
    explicit Sums(std::int64_t count)
        : value(static_cast<std::size_t>(count)), size(value), error(value), terms(value) {}
    void add(std::int64_t to, const Tap& row, const Tap& column, double x) {
        const auto i = static_cast<std::size_t>(to);
        value[i] += row.weight * column.weight * x;
        size[i] += row.weight * column.weight * std::abs(x);
        error[i] += (row.weight * column.error + row.error * column.weight + row.error * column.error) * std::abs(x);
        terms[i] += 1;
    }
    double bound(std::int64_t to, double epsilon) const {
        const auto i = static_cast<std::size_t>(to);
        return error[i] + epsilon * (terms[i] + 8) * size[i];
    }
    std::vector<double> value, size, error, terms;
};

Trial forward_trial(const Variant& v, Random& random, const Regions& call) {
    Trial trial;
    const Shape from = call.from(), to = call.to();
    const double eps = epsilon(compute_dtype(v.dtype));
    const TestArray& x = trial.input(v, call.layout.memory(from), normal(random));
    const TestArray& boxes = trial.input(Dtype::f32, {call.count, 5}, v.in, boxes_on(call, random));
    Sums sums(to.numel());
    for_each_tap(boxes, call, eps, [&](std::int64_t r, std::int64_t n, const Tap& row, const Tap& column) {
        for (std::int64_t c = 0; c < call.channels; ++c) {
            const double value = x.get(call.layout.element(from, n, c, row.pixel, column.pixel));
            sums.add(call.layout.element(to, r, c, row.bin, column.bin), row, column, value);
        }
    });
    Output& y = trial.output(v, call.layout.memory(to));
    for (std::int64_t i = 0; i < to.numel(); ++i) y.expect(sums.value[static_cast<std::size_t>(i)], sums.bound(i, eps));
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            roi_align(stream, call.layout.seen(in[0]), in[1], call.options, call.layout.seen(out[0]));
        });
    };
    return trial;
}

Trial gradient_trial(const Variant& v, Random& random, const Regions& call) {
    Trial trial;
    const Shape from = call.from(), to = call.to();
    const double eps = epsilon(compute_dtype(v.dtype));
    const TestArray& dy = trial.input(v, call.layout.memory(to), normal(random));
    const TestArray& boxes = trial.input(Dtype::f32, {call.count, 5}, v.in, boxes_on(call, random));
    Sums sums(from.numel());
    for_each_tap(boxes, call, eps, [&](std::int64_t r, std::int64_t n, const Tap& row, const Tap& column) {
        for (std::int64_t c = 0; c < call.channels; ++c) {
            const double value = dy.get(call.layout.element(to, r, c, row.bin, column.bin));
            sums.add(call.layout.element(from, n, c, row.pixel, column.pixel), row, column, value);
        }
    });
    Output &dx = trial.output(v, call.layout.memory(from)),
           &sum = trial.output(Dtype::f32, call.layout.memory(from), v.out, all(2));
    for (std::int64_t i = 0; i < from.numel(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        dx.expect(sums.value[at], sums.bound(i, eps));
        sum.expect(2 + sums.value[at], sums.bound(i, eps) + epsilon(Dtype::f32) * (2 + sums.size[at]));
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        const View dy = call.layout.seen(in[0]);
        device.run<RoiAlignGradientPlan>(dy, in[1], call.options, 0.0f, call.layout.seen(out[0]));
        device.run<RoiAlignGradientPlan>(dy, in[1], call.options, 1.0f, call.layout.seen(out[1]));
    };
    return trial;
}

Cases cases() {
    Cases result;
    const auto add = [&](const std::string& name, Regions call, bool few = false) {
        const std::span<const Layouts> layouts = few ? std::span<const Layouts>(kContiguous) : kAllLayouts;
        for (const bool last : {true, false}) {
            call.layout.last = last;
            const std::string where = name + "/" + call.layout.name();
            result.add(where, forward_trial, call).layouts = layouts;
            result.add(where + "/gradient", gradient_trial, call).layouts = layouts;
        }
    };
    add("two_samples", {2, 8, 5, 6, 7, 3, 2, {.scale = 0.25, .sampling = 2}});
    add("as_many_as_pixels", {2, 3, 7, 9, 6, 2, 2, {.scale = 0.5}});
    add("aligned", {1, 16, 4, 5, 5, 2, 3, {.scale = 2, .sampling = 3, .aligned = true}}, true);
    add("aligned_as_many_as_pixels", {2, 8, 9, 8, 5, 1, 2, {.aligned = true}}, true);
    add("one_pixel", {3, 8, 1, 1, 9, 2, 2, {.scale = 0.125, .sampling = 2}}, true);
    add("no_boxes", {2, 8, 4, 4, 0, 2, 2, {}}, true);
    add("no_images", {0, 8, 4, 4, 0, 2, 2, {}}, true);
    // More boxes than a block has threads; more channels than are converted at a time; parts of a row that end inside
    // of a pixel's channels.
    add("many_boxes", {2, 8, 6, 5, 600, 2, 2, {.sampling = 2}}, true);
    add("many_channels", {1, 1032, 3, 4, 3, 2, 1, {.sampling = 1}}, true);
    add("a_long_row", {1, 24, 2, 40, 5, 1, 5, {.sampling = 2}}, true);
    Regions large{2, 64, 40, 40, 60, 7, 7, {.scale = 0.25, .sampling = 2}};
    result.add("large", forward_trial, large).only(kF32).large = true;
    result.add("large/gradient", gradient_trial, large).only(kF32).large = true;
    return result;
}

const bool rows = add_rows("RoiAlignRows", cases());

using RoiAlignKernels = DeviceTest;

TEST_P(RoiAlignKernels, RefusesAnImageThatIsNotThere) {
    TestArray x(Dtype::f32, {2, 3, 4, 4}), boxes(Dtype::f32, {3, 5}), y(Dtype::f32, {3, 3, 2, 2});
    x.fill(random);
    for (std::int64_t i = 0; i < boxes.numel(); ++i) boxes.set(i, i == 5 ? 2 : 1);
    const View in = device().put(x), list = device().put(boxes), out = device().put(y);
    device().expect_index_error("roi_align: index of the image", 2, 1, 2,
                                [&] { device().run([&](auto& stream) { roi_align(stream, in, list, {}, out); }); });
}

INSTANTIATE_TEST_SUITE_P(Devices, RoiAlignKernels, testing::ValuesIn(kPlaces), place_name);

}  // namespace roi_align_devices_test
}  // namespace headroom::kernels
