#include <headroom/kernels/pool/max_pool.hpp>

#include <cmath>
#include <limits>
#include <string>

#include <headroom/tests/kernels/image_layout.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace max_pool_devices_test {

using namespace test;

struct Pooling {
    std::int64_t images, channels, height, width, out_height, out_width;
    MaxPool pool;
    ImageLayout layout{};

    Shape from() const { return {images, channels, height, width}; }
    Shape to() const { return {images, channels, out_height, out_width}; }
    Dtype number() const { return pool.rows.kernel * pool.columns.kernel > 256 ? Dtype::i32 : Dtype::u8; }

    /// Calls `work(k, i, j)` for each element of a window that is inside.
    template <class Work>
    void for_each_of_window(std::int64_t h, std::int64_t w, Work&& work) const {
        for (std::int64_t r = 0; r < pool.rows.kernel; ++r) {
            for (std::int64_t s = 0; s < pool.columns.kernel; ++s) {
                const std::int64_t i = h * pool.rows.stride - pool.rows.padding + r * pool.rows.dilation;
                const std::int64_t j = w * pool.columns.stride - pool.columns.padding + s * pool.columns.dilation;
                if (i >= 0 && i < height && j >= 0 && j < width) work(r * pool.columns.kernel + s, i, j);
            }
        }
    }
};

/// Few different values, so that many are equal; some NaN and some infinities.
Fill with_ties(Random& random, bool special) {
    return [&random, special](TestArray& x) {
        std::uniform_int_distribution<int> number(-4, 5);
        for (std::int64_t i = 0; i < x.numel(); ++i) {
            const int value = number(random), kind = number(random);
            x.set(i, !special || kind < 3 ? value : kind < 5 ? -INFINITY : NAN);
        }
    };
}

Trial max_pool_trial(const Variant& v, Random& random, const Pooling& call, bool special) {
    Trial trial;
    const Shape from = call.from(), to = call.to();
    const TestArray& x = trial.input(v, call.layout.memory(from), with_ties(random, special));
    Output& y = trial.output(v, call.layout.memory(to));
    Output& place = trial.output(call.number(), call.layout.memory(to), v.out);
    call.layout.for_each(to, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
        double largest = -INFINITY, number = -1, first = -1;
        call.for_each_of_window(h, w, [&](std::int64_t k, std::int64_t i, std::int64_t j) {
            const double value = x.get(call.layout.element(from, n, c, i, j));
            if (first < 0) first = static_cast<double>(k);
            if (value > largest || std::isnan(value)) largest = value, number = static_cast<double>(k);
        });
        y.expect(largest, 0);
        // None is inside only where a dilated window of two elements stands around one row, or column.
        place.expect(number >= 0 ? number : std::max(first, 0.0), first < 0 ? 255 : 0);
    });
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            max_pool(stream, call.layout.seen(in[0]), call.pool, call.layout.seen(out[0]), call.layout.seen(out[1]));
        });
    };
    return trial;
}

/// Which window each output takes its gradient to is drawn, among the elements that are inside.
Trial gradient_trial(const Variant& v, Random& random, const Pooling& call) {
    Trial trial;
    const Shape from = call.from(), to = call.to();
    const TestArray& dy = trial.input(v, call.layout.memory(to), normal(random));
    TestArray value(Dtype::f64, call.layout.memory(from)), size(value), count(value);
    for (TestArray* array : {&value, &size, &count}) all(0)(*array);
    const TestArray& place = trial.input(call.number(), call.layout.memory(to), v.in, [&](TestArray& numbers) {
        call.layout.for_each(to, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
            std::int64_t choices = 0;
            call.for_each_of_window(h, w, [&](auto...) { ++choices; });
            std::int64_t left = choices == 0 ? -1 : std::uniform_int_distribution<std::int64_t>(0, choices - 1)(random);
            const std::int64_t from_element = call.layout.element(to, n, c, h, w);
            numbers.set(from_element, 0);
            call.for_each_of_window(h, w, [&](std::int64_t k, std::int64_t i, std::int64_t j) {
                if (left-- != 0) return;
                numbers.set(from_element, static_cast<double>(k));
                const std::int64_t to_element = call.layout.element(from, n, c, i, j);
                const double term = dy.get(from_element);
                value.set(to_element, value.get(to_element) + term);
                size.set(to_element, size.get(to_element) + std::abs(term));
                count.set(to_element, count.get(to_element) + 1);
            });
        });
    });
    static_cast<void>(place);
    const Dtype other = other_width(v.dtype);
    Output &dx = trial.output(v, call.layout.memory(from)),
           &sum = trial.output(other, call.layout.memory(from), v.out, all(2));
    const double unit = epsilon(compute_dtype(v.dtype)), unit_of_sum = other == Dtype::f64 ? epsilon(other) : unit;
    for (std::int64_t i = 0; i < value.numel(); ++i) {
        const double units = count.get(i) * size.get(i);
        dx.expect(value.get(i), count.get(i) < 2 ? 0 : unit * units);
        sum.expect(2 + value.get(i), unit_of_sum * units + epsilon(other) * (2 + size.get(i)));
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            const View dy = call.layout.seen(in[0]), place = call.layout.seen(in[1]);
            max_pool_gradient(stream, dy, place, call.pool, 0.0f, call.layout.seen(out[0]));
            max_pool_gradient(stream, dy, place, call.pool, 1.0f, call.layout.seen(out[1]));
        });
    };
    return trial;
}

Cases cases() {
    Cases result;
    const auto add = [&](const std::string& name, Pooling call, bool few = false) {
        const std::span<const Layouts> layouts = few ? std::span<const Layouts>(kContiguous) : kAllLayouts;
        for (const bool last : {true, false}) {
            call.layout.last = last;
            const std::string where = name + "/" + to_name(call.from()) + "/" + call.layout.name();
            result.add(where, max_pool_trial, call, false).layouts = layouts;
            result.add(where + "/special", max_pool_trial, call, true).only(kFloating);
            result.add(where + "/gradient", gradient_trial, call).layouts = layouts;
        }
    };
    const PoolAxis two{.kernel = 2, .stride = 2}, three{.kernel = 3, .stride = 2, .padding = 1};
    add("halves", {2, 8, 4, 6, 2, 3, {two, two}});
    add("overlaps", {2, 8, 5, 7, 3, 4, {three, three}});
    add("overlaps", {1, 5, 5, 4, 3, 2, {three, three}});
    add("one_channel", {2, 1, 4, 5, 2, 3, {two, three}}, true);
    add("one_element", {3, 3, 1, 1, 1, 1, {three, three}}, true);
    const PoolAxis five{.kernel = 5, .padding = 2};  // 25 windows read the middle, more than are added at once
    add("stays", {1, 16, 5, 6, 5, 6, {five, five}}, true);
    add("dilated", {1, 8, 7, 6, 4, 3, {{2, 1, 0, 3}, {3, 2, 2, 2}}});
    add("dilated_around_all", {1, 8, 1, 3, 1, 3, {{2, 1, 1, 2}, {2, 1, 1, 2}}}, true);
    add("leaves_some_out", {1, 3, 7, 8, 2, 3, {{1, 4, 0, 1}, {2, 3, 0, 1}}}, true);
    add("reaches_beyond_the_end", {1, 8, 5, 4, 3, 2, {two, {.kernel = 3, .stride = 2}}}, true);
    add("no_images", {0, 8, 4, 4, 2, 2, {two, two}}, true);
    add("wide_numbers", {1, 8, 17, 18, 2, 2, {{17, 1, 1, 1}, {17, 1, 0, 1}}}, true);
    // A byte's last number; more channels than are converted at a time; more elements than the grid has threads.
    add("last_number", {1, 8, 16, 16, 1, 1, {{16, 1, 0, 1}, {16, 1, 0, 1}}}, true);
    add("many_channels", {1, 1030, 3, 2, 2, 1, {{2, 1, 0, 1}, two}}, true);
    Pooling large{1, 8, 180, 180, 90, 90, {three, three}};
    result.add("large", max_pool_trial, large, false).only(kF32).large = true;
    result.add("large/gradient", gradient_trial, large).only(kF32).large = true;
    return result;
}

const bool rows = add_rows("MaxPoolRows", cases());

}  // namespace max_pool_devices_test
}  // namespace headroom::kernels
