#include <headroom/examples/segmentation/images.hpp>

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <headroom/data/image_files.hpp>
#include <headroom/examples/segmentation/clouds.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::segmentation {

namespace {

Split draw(const SegmentationFlags& flags) {
    constexpr std::int64_t held_out = std::int64_t{1} << 40;  // numbers that no cloud for training has
    CloudOptions options{.height = flags.height,
                         .width = flags.width,
                         .classes = flags.classes,
                         .noise = flags.noise,
                         .count = flags.clouds,
                         .seed = flags.seed};
    const auto training = std::make_shared<const Clouds>(options);
    options.first = held_out;
    options.count = flags.validation > 0 ? flags.validation : 100;
    return {training, std::make_shared<const Clouds>(options),
            fmt::format("{} clouds to draw, {} others to validate", flags.clouds, options.count)};
}

Split read_files(const SegmentationFlags& flags) {
    data::MaskedImagesOptions options{.mask_suffix = flags.mask_suffix};
    if (flags.ignore >= 0) options.ignored_value = static_cast<std::uint8_t>(flags.ignore);
    const auto all = std::make_shared<const data::MaskedImages>(flags.images, flags.masks, flags.classes, options);
    const std::int64_t held_out = flags.validation > 0 ? flags.validation : std::max<std::int64_t>(1, all->size() / 10);
    if (all->size() <= held_out)
        throw Error(fmt::format("{}: of its {} images {} are to validate, and none is left to train on", flags.images,
                                all->size(), held_out));
    const auto [training, validation] = data::random_split(all, held_out, flags.seed);
    return {
        training, validation,
        fmt::format("{} images of {} to train on, {} others to validate", training->size(), flags.images, held_out)};
}

}  // namespace

Split read_images(const SegmentationFlags& flags) {
    Split split = flags.has_files() ? read_files(flags) : draw(flags);
    if (split.training->size() < flags.batch)
        throw Error(fmt::format("--batch {}: there are {} images to train on", flags.batch, split.training->size()));
    return split;
}

}  // namespace headroom::segmentation
