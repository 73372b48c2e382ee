#include <headroom/examples/detection/batches.hpp>

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::detection {

namespace {

float area(const data::Box& box) { return (box.x2 - box.x1) * (box.y2 - box.y1); }

}  // namespace

Examples::Examples(data::ImageDataset images, const ExampleOptions& options)
    : images_(std::move(images)), options_(options) {
    if (options.objects < 1)
        throw Error(fmt::format("examples have a place for at least one object, not for {}", options.objects));
}

void Examples::read(std::span<const std::int64_t> indices, std::uint64_t first_draw, Batch& batch) const {
    images_.read(indices, first_draw, batch.images);
    const auto count = static_cast<std::size_t>(batch.images.rows * options_.objects);
    const auto pixels = static_cast<std::size_t>(batch.images.height * batch.images.width);
    batch.boxes.assign(4 * count, 0.0f);
    batch.labels.assign(count, 0);
    batch.masks.assign(options_.masks ? count * pixels : 0, 0);
    for (std::size_t row = 0; row < indices.size(); ++row) write(batch.images.objects[row], row, batch);
}

void Examples::write(const std::vector<data::ImageObject>& objects, std::size_t row, Batch& batch) const {
    std::vector<const data::ImageObject*> largest;
    for (const data::ImageObject& object : objects)
        if (!object.crowd) largest.push_back(&object);
    std::ranges::stable_sort(largest, std::ranges::greater(), [](const auto* object) { return area(object->box); });
    const std::size_t most = std::min(largest.size(), static_cast<std::size_t>(options_.objects));
    std::size_t at = row * static_cast<std::size_t>(options_.objects);
    for (std::size_t i = 0; i < most; ++i, ++at) {
        const data::ImageObject& object = *largest[i];
        const float box[]{object.box.x1, object.box.y1, object.box.x2, object.box.y2};
        std::ranges::copy(box, batch.boxes.data() + 4 * at);
        batch.labels[at] = object.label;
        if (!options_.masks) continue;
        if (object.mask.empty()) throw Error(fmt::format("annotation {} has no mask", object.id));
        std::ranges::copy(object.mask.pixels, batch.masks.data() + at * object.mask.pixels.size());
    }
}

}  // namespace headroom::detection
