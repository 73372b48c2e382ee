#include <headroom/examples/segmentation/images.hpp>

#include <memory>
#include <utility>

#include <fmt/format.h>

#include <headroom/data/image_files.hpp>
#include <headroom/examples/program/images.hpp>
#include <headroom/examples/segmentation/clouds.hpp>
#include <headroom/examples/segmentation/mask_values.hpp>

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
    options.orientation = *flags.read_as();
    if (!flags.mask_values.empty()) options.values = parse_mask_values(flags.mask_values);
    if (flags.ignore >= 0) options.ignored_value = static_cast<std::uint8_t>(flags.ignore);
    const auto all = std::make_shared<const data::MaskedImages>(flags.images, flags.masks, flags.classes, options);
    auto [training, validation] = program::hold_out(all, flags.validation, flags.seed, flags.images);
    auto skipped = program::look_through(flags, {&training, &validation});
    const std::string values = flags.mask_values.empty() ? ""
                                                         : fmt::format("; values {} of masks are classes 0 to {}",
                                                                       flags.mask_values, flags.classes - 1);
    return {training, validation,
            fmt::format("{} images of {} to train on, {} others to validate{}", training->size(), flags.images,
                        validation->size(), values),
            std::move(skipped)};
}

}  // namespace

Split read_images(const SegmentationFlags& flags) { return flags.has_files() ? read_files(flags) : draw(flags); }

}  // namespace headroom::segmentation
