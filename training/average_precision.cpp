#include <headroom/training/average_precision.hpp>

#include <algorithm>
#include <functional>

namespace headroom::training {

namespace {

double area(const data::Box& box) {
    return static_cast<double>(std::max(box.x2 - box.x1, 0.0f)) * static_cast<double>(std::max(box.y2 - box.y1, 0.0f));
}

double share(double both, double found, double object, bool crowd) {
    const double all = crowd ? found : found + object - both;
    return all > 0 ? both / all : 0;
}

using Objects = std::vector<const data::ImageObject*>;

/// The one that a detection overlaps most, by at least the threshold; the end if there is none.
Objects::iterator best(Objects& objects, const Detection& found, Overlap overlap, double threshold) {
    auto best = objects.end();
    for (auto object = objects.begin(); object != objects.end(); ++object) {
        const double with = overlap(found, **object);
        if (with < threshold) continue;
        threshold = with;
        best = object;
    }
    return best;
}

}  // namespace

double box_overlap(const Detection& found, const data::ImageObject& object) {
    const data::Box &a = found.box, &b = object.box;
    const data::Box both{std::max(a.x1, b.x1), std::max(a.y1, b.y1), std::min(a.x2, b.x2), std::min(a.y2, b.y2)};
    return share(area(both), area(a), area(b), object.crowd);
}

double mask_overlap(const Detection& found, const data::ImageObject& object) {
    const auto &a = found.mask.pixels, &b = object.mask.pixels;
    std::int64_t in_a = 0, in_b = 0, in_both = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        in_a += a[i] != 0;
        in_b += b[i] != 0;
        in_both += a[i] != 0 && b[i] != 0;
    }
    return share(static_cast<double>(in_both), static_cast<double>(in_a), static_cast<double>(in_b), object.crowd);
}

void AveragePrecision::add(const std::vector<Detection>& found, const std::vector<data::ImageObject>& objects) {
    std::map<std::int32_t, Objects> free, crowds;  // by label
    for (const data::ImageObject& object : objects) {
        (object.crowd ? crowds : free)[object.label].push_back(&object);
        if (!object.crowd) ++classes_[object.label].objects;
    }
    std::vector<const Detection*> order;
    for (const Detection& detection : found) order.push_back(&detection);
    std::ranges::stable_sort(order, std::ranges::greater(), &Detection::score);
    for (const Detection* detection : order) {
        Objects &of_class = free[detection->label], &many = crowds[detection->label];
        const auto object = best(of_class, *detection, overlap_, threshold_);
        const bool right = object != of_class.end();
        if (right) of_class.erase(object);
        if (right || best(many, *detection, overlap_, threshold_) == many.end())
            classes_[detection->label].found.emplace_back(detection->score, right);
    }
}

double AveragePrecision::Class::average_precision() const {
    auto order = found;
    std::ranges::stable_sort(order, std::ranges::greater(), &std::pair<float, bool>::first);
    std::vector<std::int64_t> hits;  // so far
    std::vector<double> precision;
    for (const auto& [score, right] : order) {
        hits.push_back((hits.empty() ? 0 : hits.back()) + right);
        precision.push_back(static_cast<double>(hits.back()) / static_cast<double>(hits.size()));
    }
    for (std::size_t i = precision.size(); i-- > 1;) precision[i - 1] = std::max(precision[i - 1], precision[i]);
    double sum = 0;
    for (std::int64_t percent = 0; percent <= 100; ++percent) {
        const auto reached =
            std::ranges::find_if(hits, [&](std::int64_t count) { return 100 * count >= percent * objects; });
        if (reached != hits.end()) sum += precision[static_cast<std::size_t>(reached - hits.begin())];
    }
    return sum / 101;
}

double AveragePrecision::mean() const {
    double sum = 0;
    int count = 0;
    for (const auto& [label, of_class] : classes_) {
        if (of_class.objects == 0) continue;
        sum += of_class.average_precision();
        ++count;
    }
    return count > 0 ? sum / count : 0;
}

}  // namespace headroom::training
