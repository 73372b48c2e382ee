#include <headroom/examples/segmentation/mask_values.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/data/image_files.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::segmentation {

namespace {

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
            return fmt::format("{} is no list of values from 0 to 255, such as 0,255", text);
        if (!values.insert(std::stoi(part)).second) return fmt::format("{} has {} twice", text, part);
    }
    return values.size() < 2 ? fmt::format("{} is one class; name two or more", text) : "";
}

std::string find_mask_values(const SegmentationFlags& flags) {
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
            fmt::format("{}: masks have the values {}, but {} classes are 0 to {}; name more by --classes, the values "
                        "of classes by "
                        "--mask-values {}, or one that is no class by --ignore {}",
                        mask.native(), list, flags.classes, flags.classes - 1, list, *all.rbegin()));
    }
    return all.contains(255) ? "0,255" : "";
}

}  // namespace headroom::segmentation
