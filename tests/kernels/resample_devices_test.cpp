#include <headroom/kernels/resample/resample.hpp>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <headroom/tests/kernels/image_layout.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace resample_devices_test {

using namespace test;

using Kind = AxisMap::Kind;

/// The weights of a map as a matrix, by the formulas of the forward direction alone.
std::vector<std::vector<double>> matrix_of(const AxisMap& map) {
    std::vector<std::vector<double>> result(static_cast<std::size_t>(map.out),
                                            std::vector<double>(static_cast<std::size_t>(map.in)));
    for (std::int64_t o = 0; o < map.out; ++o) {
        const auto add = [&](std::int64_t i, double weight) {
            result[static_cast<std::size_t>(o)][static_cast<std::size_t>(i)] += weight;
        };
        const std::int64_t last = map.in - 1, at = o - map.before;
        switch (map.kind) {
            case Kind::window: {
                std::int64_t inside = 0, padded = 0;
                for (std::int64_t k = 0; k < map.kernel; ++k) {
                    const std::int64_t i = o * map.stride - map.before + k;
                    inside += i >= 0 && i < map.in;
                    padded += i < map.in + map.before;
                }
                const std::int64_t count = map.divisor > 0 ? map.divisor : map.counts_padding ? padded : inside;
                for (std::int64_t k = 0; k < map.kernel; ++k) {
                    const std::int64_t i = o * map.stride - map.before + k;
                    if (i >= 0 && i < map.in) add(i, 1 / static_cast<double>(count));
                }
                break;
            }
            case Kind::adaptive: {
                const double share = static_cast<double>(map.in) / static_cast<double>(map.out);
                const double begin = std::floor(static_cast<double>(o) * share + 1e-9);
                const double end = std::ceil(static_cast<double>(o + 1) * share - 1e-9);
                for (double i = begin; i < end; ++i) add(static_cast<std::int64_t>(i), 1 / (end - begin));
                break;
            }
            case Kind::nearest:
                add(std::min(last, static_cast<std::int64_t>(
                                       std::floor(static_cast<float>(o) * static_cast<float>(map.scale)))),
                    1);
                break;
            case Kind::linear: {
                const double shift = map.align_corners ? 0 : 0.5;
                const double x = std::max(0.0, (static_cast<double>(o) + shift) * map.scale - shift);
                const std::int64_t low = std::min(last, static_cast<std::int64_t>(x));
                const double rest = std::min(1.0, x - static_cast<double>(low));
                add(low, 1 - rest);
                add(std::min(low + 1, last), rest);
                break;
            }
            case Kind::reflect:
                add(std::abs(last - std::abs(last - at)), 1);
                break;
            case Kind::replicate:
                add(std::min(last, std::max<std::int64_t>(0, at)), 1);
                break;
        }
    }
    if (!map.back) return result;
    std::vector<std::vector<double>> turned(static_cast<std::size_t>(map.in));
    for (std::size_t i = 0; i < turned.size(); ++i) {
        for (const auto& row : result) turned[i].push_back(row[i]);
    }
    return turned;
}

struct Resampling {
    std::int64_t images, channels;
    AxisMap rows, columns;
    ImageLayout layout{};

    Shape from() const {
        return {images, channels, rows.back ? rows.out : rows.in, columns.back ? columns.out : columns.in};
    }
    Shape to() const {
        return {images, channels, rows.back ? rows.in : rows.out, columns.back ? columns.in : columns.out};
    }
};

/// The values, and the values added to 2 in f32, or from f32 in f64.
Trial resample_trial(const Variant& v, Random& random, const Resampling& call) {
    Trial trial;
    const Shape from = call.from(), to = call.to();
    const TestArray& x = trial.input(v, call.layout.memory(from), normal(random));
    Output& y = trial.output(v, call.layout.memory(to));
    const Dtype other = other_width(v.dtype);
    Output& sum = trial.output(other, call.layout.memory(to), v.out, all(2));
    const auto rows = matrix_of(call.rows), columns = matrix_of(call.columns);
    const double unit = epsilon(compute_dtype(v.dtype));
    const double unit_of_sum = other == Dtype::f64 ? epsilon(Dtype::f64) : unit;
    // A coordinate is off by some units of itself, and a weight by as much.
    const bool linear = call.rows.kind == Kind::linear || call.columns.kind == Kind::linear;
    const double shift = linear ? 8 * static_cast<double>(call.rows.in + call.columns.in) : 0;
    call.layout.for_each(to, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
        double value = 0, size = 0, largest = 0, count = 4;
        for (std::int64_t r = 0; r < from[2]; ++r) {
            for (std::int64_t s = 0; s < from[3]; ++s) {
                const double weight = rows[static_cast<std::size_t>(h)][static_cast<std::size_t>(r)] *
                                      columns[static_cast<std::size_t>(w)][static_cast<std::size_t>(s)];
                const double element = x.get(call.layout.element(from, n, c, r, s));
                value += weight * element, size += std::abs(weight * element);
                largest = std::max(largest, std::abs(element));
                count += weight != 0;
            }
        }
        const bool copies = count == 5 && size == std::abs(value) && !linear && call.rows.kind >= Kind::nearest;
        const double units = copies ? 0 : (count + 4) * size + shift * count * largest;
        y.expect(value, unit * units);
        sum.expect(2 + value, unit_of_sum * units + epsilon(other) * (2 + size));
    });
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            const View from = call.layout.seen(in[0]);
            resample(stream, from, call.rows, call.columns, 0.0f, call.layout.seen(out[0]));
            resample(stream, from, call.rows, call.columns, 1.0f, call.layout.seen(out[1]));
        });
    };
    return trial;
}

void add(Cases& cases, const std::string& name, const AxisMap& rows, const AxisMap& columns,
         std::span<const Layouts> layouts = kAllLayouts) {
    for (const bool back : {false, true}) {
        for (const bool last : {true, false}) {
            Resampling call{2, last ? 8 : 3, rows, columns, {last}};
            call.rows.back = call.columns.back = back;
            cases.add(name + (back ? "/back/" : "/") + call.layout.name(), resample_trial, call)
                .only(kFloating, layouts);
        }
    }
}

Cases averages() {
    Cases result;
    const auto window = [](auto... sizes) { return AxisMap::window(sizes...); };
    add(result, "halves", window(6, 3, 2, 2, 0, true), window(4, 2, 2, 2, 0, true));
    add(result, "overlaps", window(5, 3, 3, 2, 1, true), window(7, 4, 3, 2, 1, true));
    add(result, "inside_only", window(5, 3, 3, 2, 1, false), window(4, 2, 3, 2, 1, false));
    add(result, "reaches_beyond_the_end", window(6, 3, 3, 3, 1, true), window(6, 3, 3, 3, 1, true), kContiguous);
    add(result, "divided_by_5", window(5, 3, 3, 2, 1, true, 5), window(5, 3, 3, 2, 1, true, 1), kContiguous);
    add(result, "leaves_some_out", window(9, 3, 2, 4, 0, true), window(7, 3, 1, 3, 0, true), kContiguous);
    add(result, "adaptive", AxisMap::adaptive(7, 3), AxisMap::adaptive(5, 5));
    add(result, "adaptive_to_more", AxisMap::adaptive(3, 7), AxisMap::adaptive(4, 6), kContiguous);
    add(result, "global", AxisMap::adaptive(5, 1), AxisMap::adaptive(7, 1), kContiguous);
    return result;
}

Cases interpolations() {
    Cases result;
    add(result, "nearest", AxisMap::nearest(3, 6), AxisMap::nearest(5, 7));
    add(result, "nearest_to_fewer", AxisMap::nearest(7, 3), AxisMap::nearest(5, 5), kContiguous);
    // Here f32 and f64 tell different pixels, and a quotient another first reader than there is.
    for (const auto& [in, out] : {std::pair{2, 82}, {2, 98}, {6, 118}}) {
        add(result, "nearest_rounded_to_" + std::to_string(out), AxisMap::nearest(in, out), AxisMap::nearest(1, 1),
            kContiguous);
    }
    add(result, "nearest_by_factor", AxisMap::nearest(5, 8, 1.7), AxisMap::nearest(6, 4, 0.7), kContiguous);
    for (const bool align : {false, true}) {
        const std::string name = align ? "aligned" : "linear";
        add(result, name, AxisMap::linear(3, 6, align), AxisMap::linear(4, 7, align));
        add(result, name + "_to_fewer", AxisMap::linear(7, 3, align), AxisMap::linear(9, 2, align), kContiguous);
        add(result, name + "_by_factor", AxisMap::linear(5, 8, align, 1.7), AxisMap::linear(6, 4, align, 0.7),
            kContiguous);
        add(result, name + "_to_and_from_one", AxisMap::linear(5, 1, align), AxisMap::linear(1, 4, align), kContiguous);
        add(result, name + "_far", AxisMap::linear(3, 50, align), AxisMap::linear(60, 59, align), kContiguous);
        const AxisMap one = AxisMap::linear(1, 1, align);
        add(result, name + "_rounded_up", align ? AxisMap::linear(2, 42, true) : AxisMap::linear(3, 37, false), one,
            kContiguous);
        add(result, name + "_rounded_down", align ? AxisMap::linear(4, 60, true) : AxisMap::linear(2, 82, false), one,
            kContiguous);
    }
    return result;
}

Cases paddings() {
    Cases result;
    for (const Kind kind : {Kind::reflect, Kind::replicate}) {
        const std::string name = kind == Kind::reflect ? "reflect" : "replicate";
        const auto pad = [&](std::int64_t in, std::int64_t before, std::int64_t after) {
            return AxisMap::padding(kind, in, before, after);
        };
        add(result, name, pad(4, 1, 2), pad(5, 4, 4));
        add(result, name + "_none", pad(4, 0, 0), pad(1, 0, 0), kContiguous);
        add(result, name + "_and_crops", pad(5, -2, 3), pad(6, 3, -2), kContiguous);
        add(result, name + "_crops", pad(5, -2, -1), pad(6, 0, -4), kContiguous);
        add(result, name + "_crops_more_than_it_adds", pad(5, 3, -6), pad(5, -6, 4), kContiguous);
    }
    add(result, "replicate_many", AxisMap::padding(Kind::replicate, 2, 9, 5),
        AxisMap::padding(Kind::replicate, 1, 2, 3), kContiguous);
    return result;
}

/// Shapes that have little to do with the maps.
Cases shapes() {
    Cases result;
    const AxisMap rows = AxisMap::linear(2, 3, true), columns = AxisMap::linear(3, 5, false);
    const auto add = [&](const Resampling& call) -> Case& {
        return result.add(to_name(call.from()) + "/" + call.layout.name(), resample_trial, call);
    };
    add({1, 1, rows, columns, {true}});
    add({1, 1, rows, columns, {false}});
    add({3, 5, rows, columns, {true}});
    add({1, 24, rows, columns, {true}});
    add({0, 8, rows, columns, {true}}).only(kF32);
    add({2, 0, rows, columns, {true}}).only(kF32);
    add({1, 1030, rows, columns, {true}}).only(kFloating);  // more channels than are converted at a time
    // More elements than the grid has threads.
    for (const bool last : {true, false})
        add({1, 40, AxisMap::nearest(2, 60), AxisMap::nearest(2, 90), {last}}).only(kF32).large = true;
    return result;
}

const bool rows = add_rows("Averages", averages()) && add_rows("Interpolations", interpolations()) &&
                  add_rows("Paddings", paddings()) && add_rows("ResampledShapes", shapes());

}  // namespace resample_devices_test
}  // namespace headroom::kernels
