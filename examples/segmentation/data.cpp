#include <headroom/examples/segmentation/data.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/data/image_files.hpp>
#include <headroom/examples/cli/options.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::segmentation {

namespace {

Split draw(const DataFlags& flags) {
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
    const auto blank = [&](std::int64_t count) {
        return cli::alike(count, {.image = data::Image(flags.height, flags.width, 3),
                                  .mask = data::Image(flags.height, flags.width, 1)});
    };
    return {training, std::make_shared<const Clouds>(options), blank(flags.clouds), blank(options.count),
            fmt::format("{} clouds to draw, {} others to validate", flags.clouds, options.count)};
}

Split read_files(const DataFlags& flags) {
    data::MaskedImagesOptions options{.mask_suffix = flags.mask_suffix};
    options.orientation = *flags.read_as();
    if (!flags.mask_values.empty()) options.values = parse_mask_values(flags.mask_values);
    if (flags.ignore >= 0) options.ignored_value = static_cast<std::uint8_t>(flags.ignore);
    const auto all = std::make_shared<const data::MaskedImages>(flags.images, flags.masks, flags.classes, options);
    auto [training, validation] = cli::hold_out(all, flags.validation, flags.seed, flags.images);
    auto skipped = cli::look_through(flags, {&training, &validation});
    const std::string values = flags.mask_values.empty() ? ""
                                                         : fmt::format("; values {} of masks are classes 0 to {}",
                                                                       flags.mask_values, flags.classes - 1);
    return {training,
            validation,
            cli::loaded_once(training),
            cli::loaded_once(validation),
            fmt::format("{} images of {} to train on, {} others to validate{}{}", training->size(), flags.images,
                        validation->size(), values, cli::left_out(all->left_out(), "folder")),
            std::move(skipped)};
}

constexpr std::size_t kLookedAt = 32;  ///< masks

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts{""};
    for (const char c : text) {
        if (c == ',')
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

/// Those of the largest files, the largest first.
std::vector<std::filesystem::path> largest(const data::MaskedImages& images) {
    std::vector<std::pair<std::uintmax_t, std::int64_t>> sizes;
    for (std::int64_t i = 0; i < images.size(); ++i) {
        std::error_code error;
        const std::uintmax_t size = std::filesystem::file_size(images.mask(i), error);
        sizes.emplace_back(error ? 0 : size, -i);
    }
    const std::size_t count = std::min(sizes.size(), kLookedAt);
    std::partial_sort(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count), sizes.end(), std::greater());
    std::vector<std::filesystem::path> masks;
    for (std::size_t i = 0; i < count; ++i) masks.push_back(images.mask(-sizes[i].second));
    return masks;
}

std::set<int> values_in(const std::filesystem::path& mask) {
    try {
        const data::Image image = data::read_mask(mask);
        return {image.pixels.begin(), image.pixels.end()};
    } catch (const data::BadImage&) {
        return {};
    }
}

}  // namespace

void add_data(cli::App& app, DataFlags& flags) {
    const auto count = cli::whole(1, 1 << 20);
    cli::add_option(app, "--data", flags.data,
                    "folder that contains images/ (PNG or JPEG) and masks/ (for each image a PNG of the same name, "
                    "whose values are classes); without it, clouds are drawn");
    const cli::Option images = cli::add_option(app, "--images", flags.images, "folder of images, instead of --data");
    const cli::Option masks =
        cli::add_option(app, "--masks", flags.masks, "folder of the masks of --images").needs(images);
    images.needs(masks);
    cli::add_option(app, "--mask-suffix", flags.mask_suffix,
                    "end of the masks' names; with _mask, the mask of a.jpg is a_mask.png");
    cli::add_option(app, "--mask-values", flags.mask_values,
                    "mask values of classes 0, 1 and so on, such as 0,255; by default each value is its class, or "
                    "0,255 where masks have only these two")
        .check({mask_values_problem});
    cli::add_option(app, "--ignore", flags.ignore, "mask value that stands for no class, such as 255 for borders")
        .check(cli::whole(0, 255));
    cli::add_option(app, "--clouds", flags.clouds, "clouds to draw for training").check(count).show_default();
    cli::add_option(app, "--noise", flags.noise, "noise of drawn clouds, in standard deviations of the clouds under it")
        .check(cli::real(0, 100))
        .show_default();
    cli::add_option(app, "--height", flags.height,
                    "image height in pixels; images are drawn in this size or resized to it")
        .check(count)
        .show_default();
    cli::add_option(app, "--width", flags.width, "image width in pixels").check(count).show_default();
    cli::add_option(app, "--classes", flags.classes, "number of classes; mask values must be below it")
        .check(cli::whole(2, 255))
        .show_default();
    cli::add_option(app, "--validation", flags.validation,
                    "images for validation, which are not trained on; by default a tenth, or 100 drawn ones")
        .check(count);
    cli::add_option(app, "--flips", flags.flips, "mirror training images at random: none, horizontal or both")
        .check(cli::one_of({"none", "horizontal", "both"}))
        .show_default();
    cli::add_option(app, "--crop", flags.crop, "train on random crops with this share of the height and of the width")
        .check(cli::real(0.01, 1))
        .show_default();
}

void take_mask_values(cli::App& app, DataFlags& flags) {
    if (!flags.has_files()) {
        if (!flags.mask_values.empty())
            throw cli::WrongUsage("--mask-values is for files; name their folder by --data");
        return;
    }
    if (flags.mask_values.empty()) {
        const std::string found = find_mask_values(flags);
        if (found.empty()) return;
        cli::imply(app, "--mask-values", found, flags.masks);
    }
    const std::vector<std::uint8_t> values = parse_mask_values(flags.mask_values);
    if (std::ranges::find(values, flags.ignore) != values.end())
        throw cli::WrongUsage(
            fmt::format("--ignore {}: --mask-values {} makes it a class", flags.ignore, flags.mask_values));
    if (app.given("--classes") && flags.classes != std::ssize(values))
        throw cli::WrongUsage(
            fmt::format("--classes {}: --mask-values {} names {}", flags.classes, flags.mask_values, values.size()));
    cli::imply(app, "--classes", fmt::to_string(values.size()), flags.masks);
}

Split read_images(const DataFlags& flags) { return flags.has_files() ? read_files(flags) : draw(flags); }

std::vector<std::uint8_t> parse_mask_values(const std::string& text) {
    std::vector<std::uint8_t> values;
    for (const std::string& part : split(text)) values.push_back(static_cast<std::uint8_t>(std::stoi(part)));
    return values;
}

std::string mask_values_problem(const std::string& text) {
    std::set<int> values;
    for (const std::string& part : split(text)) {
        const bool digits =
            !part.empty() && part.size() <= 3 && part.find_first_not_of("0123456789") == std::string::npos;
        if (!digits || std::stoi(part) > 255)
            return fmt::format("{} is not a list of values from 0 to 255, such as 0,255", text);
        if (!values.insert(std::stoi(part)).second) return fmt::format("{} has {} twice", text, part);
    }
    return values.size() < 2 ? fmt::format("{} is one class; name two or more", text) : "";
}

std::string find_mask_values(const DataFlags& flags) {
    const data::MaskedImages images(flags.images, flags.masks, 1, {.mask_suffix = flags.mask_suffix});
    std::set<int> all;
    for (const std::filesystem::path& mask : largest(images)) {
        std::set<int> values = values_in(mask);
        values.erase(static_cast<int>(flags.ignore));
        all.insert(values.begin(), values.end());
        if (all.empty() || *all.rbegin() < flags.classes || std::ranges::includes(std::set{0, 255}, all)) continue;
        constexpr std::ptrdiff_t shown = 8;
        const std::string list =
            fmt::format("{}{}", fmt::join(all.begin(), std::next(all.begin(), std::min(std::ssize(all), shown)), ","),
                        std::ssize(all) > shown ? ",..." : "");
        throw FileError(
            fmt::format("{}: masks have the values {}, but {} classes are 0 to {}; raise --classes, name the classes' "
                        "values by --mask-values {}, or exclude a value by --ignore {}",
                        mask.native(), list, flags.classes, flags.classes - 1, list, *all.rbegin()));
    }
    return all.contains(255) ? "0,255" : "";
}

}  // namespace headroom::segmentation
