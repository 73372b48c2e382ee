#include <headroom/kernels/nms/nms.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace nms_devices_test {

using namespace test;

struct Suppression {
    std::int64_t images, count, most;
    std::int64_t groups;  ///< 0: none are given
    double threshold, min_score;
    std::int64_t extent = 40;  ///< of the images
};

/// Corners at whole numbers, which all dtypes hold, and of which areas are exact.
Fill boxes_in(const Suppression& call, Random& random) {
    return [&random, call](TestArray& boxes) {
        std::uniform_int_distribution<std::int64_t> corner(0, call.extent), size(0, 20);
        for (std::int64_t i = 0; i < boxes.numel(); i += 4) {
            for (int axis = 0; axis < 2; ++axis) {
                const auto from = static_cast<double>(corner(random));
                boxes.set(i + axis, from);
                boxes.set(i + axis + 2, from + static_cast<double>(size(random)));
            }
        }
    };
}

/// Few different values, so that many are equal; some of boxes that are absent.
void fill_scores(TestArray& scores, Random& random) {
    std::uniform_int_distribution<int> number(-8, 40);
    for (std::int64_t i = 0; i < scores.numel(); ++i) {
        const int value = number(random);
        scores.set(i, value == -8 ? NAN : value == -7 ? -INFINITY : value * 0.125);
    }
}

struct Reference {
    const TestArray &boxes, &scores;
    const TestArray* groups;
    const Suppression& call;

    bool overlap(std::int64_t a, std::int64_t b) const {
        if (groups && groups->get(a) != groups->get(b)) return false;
        const auto at = [&](std::int64_t box, int i) { return boxes.get(4 * box + i); };
        const auto area = [&](std::int64_t box) { return (at(box, 2) - at(box, 0)) * (at(box, 3) - at(box, 1)); };
        const double width = std::min(at(a, 2), at(b, 2)) - std::max(at(a, 0), at(b, 0));
        const double height = std::min(at(a, 3), at(b, 3)) - std::max(at(a, 1), at(b, 1));
        const double both = std::max(width, 0.0) * std::max(height, 0.0);
        return static_cast<float>(both / (area(a) + area(b) - both)) > call.threshold;
    }
    std::vector<std::int64_t> order(std::int64_t n) const {
        std::vector<std::int64_t> result(static_cast<std::size_t>(call.count));
        std::iota(result.begin(), result.end(), n * call.count);
        const auto rank = [&](std::int64_t i) { return std::isnan(scores.get(i)) ? INFINITY : scores.get(i); };
        std::stable_sort(result.begin(), result.end(), [&](auto a, auto b) { return rank(a) > rank(b); });
        return result;
    }
    std::vector<std::int64_t> kept(std::int64_t n) const {
        std::vector<std::int64_t> result;
        for (const std::int64_t i : order(n)) {
            const double score = scores.get(i);
            const bool there = score >= call.min_score && score > -INFINITY;
            const bool covered = std::any_of(result.begin(), result.end(), [&](auto k) { return overlap(k, i); });
            if (there && !covered) result.push_back(i);
        }
        return result;
    }
};

Trial nms_trial(const Variant& v, Random& random, const Suppression& call) {
    Trial trial;
    const Shape list{call.images, call.count};
    const TestArray& boxes = trial.input(v, {call.images, call.count, 4}, boxes_in(call, random));
    const TestArray& scores = trial.input(v, list, [&](TestArray& x) { fill_scores(x, random); });
    const Dtype group = v.dtype == Dtype::f64 ? Dtype::i32 : Dtype::i64;
    const TestArray& groups = trial.input(group, list, v.in, indices(random, std::max<std::int64_t>(call.groups, 1)));
    const Reference reference{boxes, scores, call.groups > 0 ? &groups : nullptr, call};
    trial.input(Dtype::i64, list, v.in, [&](TestArray& order) {
        for (std::int64_t n = 0; n < call.images; ++n) {
            const auto sorted = reference.order(n);
            for (std::int64_t k = 0; k < call.count; ++k) {
                const std::int64_t i = sorted[static_cast<std::size_t>(k)] - n * call.count;
                order.set(n * call.count + k, static_cast<double>(i));
            }
        }
    });
    Output& y = trial.output(Dtype::i64, {call.images, call.most}, v.out, all(7));
    for (std::int64_t n = 0; n < call.images; ++n) {
        const auto kept = reference.kept(n);
        for (std::int64_t k = 0; k < call.most; ++k) {
            const auto at = static_cast<std::size_t>(k);
            y.expect(at < kept.size() ? static_cast<double>(kept[at] - n * call.count) : -1.0, 0);
        }
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        const Nms plan{in[0], in[1], in[3], call.groups > 0 ? in[2] : View{}, call.threshold, call.min_score};
        device.run([&](auto& stream) { nms(stream, plan, out[0]); });
    };
    return trial;
}

Cases cases() {
    Cases result;
    const auto add = [&](const std::string& name, const Suppression& call) -> Case& {
        return result.add(name, nms_trial, call);
    };
    add("one_group", {2, 37, 37, 0, 0.5, -INFINITY});
    add("groups", {3, 50, 12, 3, 0.25, 0.5});
    // Overlaps are the threshold itself; rounded to f32, 0.3 is above it and 0.7 is not.
    add("equal_overlaps", {2, 90, 90, 0, 0.3, -1, 4}).layouts = kContiguous;
    add("equal_overlaps_below", {2, 90, 90, 0, 0.7, -1, 4}).layouts = kContiguous;
    add("all_stay", {1, 40, 40, 0, 1.0, -INFINITY}).layouts = kContiguous;
    add("none_is_there", {1, 40, 5, 2, 0.5, 100}).layouts = kContiguous;
    add("more_places_than_boxes", {2, 60, 65, 0, 0.5, 1}).layouts = kContiguous;  // some scores are the least
    add("one_box", {4, 1, 1, 0, 0.5, -INFINITY}).layouts = kContiguous;
    add("no_boxes", {2, 0, 3, 0, 0.5, 0}).layouts = kContiguous;
    add("no_places", {2, 8, 0, 0, 0.5, 0}).layouts = kContiguous;
    add("no_images", {0, 8, 3, 0, 0.5, 0}).layouts = kContiguous;
    // More boxes than a block has threads: those that stay suppress in later rounds, and the places end in one of them.
    add("many_boxes", {2, 700, 700, 2, 0.2, -1, 200}).only(kF32, kFewLayouts);
    add("many_boxes_few_places", {2, 600, 290, 0, 0.6, -1, 250}).only(kF32);
    return result;
}

const bool rows = add_rows("NmsRows", cases());

}  // namespace nms_devices_test
}  // namespace headroom::kernels
