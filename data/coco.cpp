#include <headroom/data/coco.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <headroom/data/internal/codecs.hpp>
#include <headroom/data/mask_shapes.hpp>

namespace headroom::data {

ImageSample CocoImages::load(std::int64_t index) const {
    const Entry& entry = entries_.at(static_cast<std::size_t>(index));
    const std::string bytes = read_image_file(entry.file);
    const ImageHeader header = image_header(bytes).value_or(ImageHeader());
    ImageSample sample{.image = decode_image(bytes, entry.file.native(), options_.colors, orientation(entry, header))};
    if (sample.image.height != entry.height || sample.image.width != entry.width)
        throw BadImage(fmt::format("{}: is {}, but {} says that image {} is {}", entry.file.native(),
                                   wide_and_high(sample.image.height, sample.image.width), path_, entry.id,
                                   wide_and_high(entry.height, entry.width)));
    for (const Annotation& annotation : entry.annotations) {
        ImageObject object;
        object.box = annotation.box;
        object.label = annotation.label;
        object.crowd = annotation.crowd;
        object.id = annotation.id;
        if (!annotation.polygons.empty())
            object.mask = fill_polygons(annotation.polygons, entry.height, entry.width);
        else if (options_.masks)
            object.mask = decode_runs(annotation.runs, entry.height, entry.width);
        sample.objects.push_back(std::move(object));
    }
    return sample;
}

Orientation CocoImages::orientation(const Entry& entry, const ImageHeader& header) const {
    const bool fits = header.size(Orientation::stored) == std::pair(entry.height, entry.width);
    return options_.orientation.value_or(fits ? Orientation::stored : Orientation::upright);
}

void CocoImages::check(std::int64_t index) const {
    const Entry& entry = entries_.at(static_cast<std::size_t>(index));
    const auto header = whole_image_header(entry.file);
    if (!header || header->size(orientation(entry, *header)) != std::pair(entry.height, entry.width)) load(index);
}

std::int64_t CocoImages::objects() const {
    std::int64_t count = 0;
    for (const Entry& entry : entries_) count += std::ranges::count(entry.annotations, false, &Annotation::crowd);
    return count;
}

std::int64_t CocoImages::objects_beyond(std::int64_t most) const {
    std::int64_t count = 0;
    for (const Entry& entry : entries_)
        count += std::max<std::int64_t>(std::ranges::count(entry.annotations, false, &Annotation::crowd) - most, 0);
    return count;
}

std::string CocoImages::name(std::int64_t index) const {
    return entries_.at(static_cast<std::size_t>(index)).file.native();
}

}  // namespace headroom::data
