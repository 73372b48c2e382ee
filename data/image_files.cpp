#include <headroom/data/image_files.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <headroom/data/image_header.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

using std::filesystem::path;

bool has_ending(const path& file, std::initializer_list<std::string_view> endings) {
    std::string ending = file.extension().native();
    std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
    return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

bool is_hidden(const path& file) { return file.filename().native().starts_with('.'); }

/// True for PNG and JPEG, false for what is no image.
bool is_image(const path& file) {
    if (is_hidden(file)) return false;
    if (has_ending(file, {".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}))
        throw FileError(fmt::format("{}: only PNG and JPEG are read; convert it", file.native()));
    return has_ending(file, {".png", ".jpg", ".jpeg"});
}

/// The entries of a folder for which `keep` is true, sorted by the bytes of their names.
template <class Iterator, class Keep>
std::vector<path> sorted(const path& folder, Keep keep) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error))
        throw FileError(fmt::format("{}: no such folder; check the path", folder.native()));
    std::vector<path> entries;
    for (Iterator entry(folder, std::filesystem::directory_options::follow_directory_symlink, error), end;
         !error && entry != end; entry.increment(error))
        if (keep(*entry)) entries.push_back(entry->path());
    if (error) throw FileError(fmt::format("{}: can't be read: {}", folder.native(), error.message()));
    std::sort(entries.begin(), entries.end());
    return entries;
}

std::vector<path> images_of(const path& folder) {
    return sorted<std::filesystem::recursive_directory_iterator>(folder, [](const auto& entry) {
        std::error_code gone;
        return !entry.is_directory(gone) && is_image(entry.path());
    });
}

std::vector<path> class_folders(const path& folder) {
    auto folders = sorted<std::filesystem::directory_iterator>(folder, [](const auto& entry) {
        std::error_code gone;
        return entry.is_directory(gone) && !is_hidden(entry.path());
    });
    if (folders.empty())
        throw FileError(fmt::format("{}: has no folder in it; put the images of each class into one", folder.native()));
    return folders;
}

}  // namespace

ImageFolder::ImageFolder(const path& folder, ImageFolderOptions options)
    : classes_(options.classes), options_(std::move(options)) {
    const std::vector<path> folders = class_folders(folder);
    if (classes_.empty())
        for (const path& one : folders) classes_.push_back(one.filename().native());
    for (const path& one : folders) {
        const auto found = std::find(classes_.begin(), classes_.end(), one.filename().native());
        if (found == classes_.end())
            throw FileError(
                fmt::format("{}: is none of the {} classes ({}, ...)", one.native(), classes_.size(), classes_[0]));
        const std::vector<path> images = images_of(one);
        if (images.empty()) throw FileError(fmt::format("{}: has no PNG or JPEG in it", one.native()));
        for (const path& image : images)
            files_.emplace_back(image, static_cast<std::int32_t>(found - classes_.begin()));
    }
}

ImageSample ImageFolder::load(std::int64_t index) const {
    const auto& [file, label] = files_.at(static_cast<std::size_t>(index));
    return {.image = read_image(file, options_.colors, options_.orientation), .label = label};
}

void ImageFolder::check(std::int64_t index) const {
    if (!whole_image_header(files_.at(static_cast<std::size_t>(index)).first)) load(index);
}

std::string ImageFolder::name(std::int64_t index) const {
    return files_.at(static_cast<std::size_t>(index)).first.native();
}

MaskedImages::MaskedImages(const path& images, const path& masks, std::int64_t classes, MaskedImagesOptions options)
    : classes_(classes), options_(std::move(options)), class_of_value_(256, -1) {
    std::vector<std::uint8_t>& values = options_.values;
    if (classes < 1 || classes > 255 || (!values.empty() && static_cast<std::int64_t>(values.size()) != classes))
        throw Error(
            fmt::format("masks: {} classes with {} values can't be; use 1 to 255 classes, and as many values or "
                        "none",
                        classes, values.size()));
    if (values.empty()) {
        values.resize(static_cast<std::size_t>(classes));
        std::iota(values.begin(), values.end(), std::uint8_t{0});
    }
    for (std::size_t i = 0; i < values.size(); ++i) class_of_value_[values[i]] = static_cast<int>(i);
    if (options_.ignored_value) class_of_value_[*options_.ignored_value] = kIgnoredClass;

    if (!std::filesystem::is_directory(masks))
        throw FileError(fmt::format("{}: no such folder; check the path", masks.native()));
    for (const path& image : images_of(images)) {
        const path below = image.parent_path().lexically_relative(images);
        const path mask = masks / (below / (image.stem().native() + options_.mask_suffix + ".png")).lexically_normal();
        if (!std::filesystem::exists(mask))
            throw FileError(fmt::format("{}: has no mask {}", image.native(), mask.native()));
        files_.emplace_back(image, mask);
    }
    if (files_.empty()) throw FileError(fmt::format("{}: has no PNG or JPEG in it", images.native()));
}

bool MaskedImages::is_turned(const path& file) const {
    const auto header = whole_image_header(file);
    return header && header->size(options_.orientation) != header->size(Orientation::stored);
}

ImageSample MaskedImages::load(std::int64_t index) const {
    const auto& [image_file, mask_file] = files_.at(static_cast<std::size_t>(index));
    ImageSample sample{.image = read_image(image_file, options_.colors, options_.orientation),
                       .mask = read_mask(mask_file, options_.orientation)};
    Image& mask = sample.mask;
    if (mask.height != sample.image.height || mask.width != sample.image.width)
        throw BadImage(fmt::format("{}: is {}, but its image {} is {}{}", mask_file.native(),
                                   wide_and_high(mask.height, mask.width), image_file.native(),
                                   wide_and_high(sample.image.height, sample.image.width),
                                   is_turned(image_file) ? ", turned as its EXIF data says" : ""));
    for (std::size_t i = 0; i < mask.pixels.size(); ++i) {
        const int id = class_of_value_[mask.pixels[i]];
        if (id < 0)
            throw FileError(fmt::format("{}: the value {} in row {}, column {} is none of the {} classes' ({})",
                                        mask_file.native(), mask.pixels[i], i / static_cast<std::size_t>(mask.width),
                                        i % static_cast<std::size_t>(mask.width), classes_,
                                        fmt::join(options_.values, ", ")));
        mask.pixels[i] = static_cast<std::uint8_t>(id);
    }
    return sample;
}

void MaskedImages::check(std::int64_t index) const {
    const auto& [image_file, mask_file] = files_.at(static_cast<std::size_t>(index));
    const auto image = whole_image_header(image_file), mask = whole_image_header(mask_file);
    const Orientation reading = options_.orientation;
    if (!image || !mask || !mask->ids || image->size(reading) != mask->size(reading)) load(index);
}

std::string MaskedImages::name(std::int64_t index) const {
    return files_.at(static_cast<std::size_t>(index)).first.native();
}

}  // namespace headroom::data
