#include <headroom/data/image_files.hpp>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <headroom/data/image_header.hpp>
#include <headroom/data/internal/image_walk.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

using std::filesystem::path;

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
}

/// The PNG with this name but for the ending, in upper or lower case.
path find_mask(const path& image, const path& name) {
    for (const char* ending : {".png", ".PNG"})  // without a look at the whole folder
        if (const path mask = name.native() + ending; std::filesystem::exists(mask)) return mask;
    std::error_code error;
    path other;
    for (const auto& entry : std::filesystem::directory_iterator(name.parent_path(), error)) {
        if (entry.path().stem() != name.filename()) continue;
        if (has_ending(entry.path(), {".png"})) return entry.path();
        other = entry.path();
    }
    if (other.empty()) throw FileError(fmt::format("{}: has no mask {}.png", image.native(), name.native()));
    throw FileError(
        fmt::format("{}: its mask {} is not a PNG, the only format of masks that is read; convert it without loss",
                    image.native(), other.native()));
}

}  // namespace

ImageFolder::ImageFolder(const path& folder, ImageFolderOptions options)
    : classes_(options.classes), options_(std::move(options)) {
    FoundPaths folders = find_folders(folder);
    if (folders.paths.empty())
        throw FileError(fmt::format("{}: has no folder in it; put the images of each class into one", folder.native()));
    left_out_ = std::move(folders.left_out);
    if (classes_.empty())
        for (const path& one : folders.paths) classes_.push_back(one.filename().native());
    for (const path& one : folders.paths) {
        const auto found = std::find(classes_.begin(), classes_.end(), one.filename().native());
        if (found == classes_.end())
            throw FileError(
                fmt::format("{}: is none of the {} classes ({}, ...)", one.native(), classes_.size(), classes_[0]));
        const FoundPaths images = find_images(one);
        if (images.paths.empty()) throw FileError(fmt::format("{}: has no PNG or JPEG in it", one.native()));
        append(left_out_, images.left_out);
        for (const path& image : images.paths)
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
            fmt::format("masks: there must be 1 to 255 classes, with one value per class or none, got {} classes and "
                        "{} values",
                        classes, values.size()));
    if (values.empty()) {
        values.resize(static_cast<std::size_t>(classes));
        std::iota(values.begin(), values.end(), std::uint8_t{0});
    }
    for (std::size_t i = 0; i < values.size(); ++i) class_of_value_[values[i]] = static_cast<int>(i);
    if (options_.ignored_value) class_of_value_[*options_.ignored_value] = kIgnoredClass;

    if (!std::filesystem::is_directory(masks))
        throw FileError(fmt::format("{}: no such folder; check the path", masks.native()));
    FoundPaths found = find_images(images);
    left_out_ = std::move(found.left_out);
    for (const path& image : found.paths) {
        const path below = image.parent_path().lexically_relative(images);
        const path name = (masks / below / (image.stem().native() + options_.mask_suffix)).lexically_normal();
        files_.emplace_back(image, find_mask(image, name));
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
            throw FileError(
                fmt::format("{}: the value {} in row {}, column {} is not the value of any of the {} classes ({})",
                            mask_file.native(), mask.pixels[i], i / static_cast<std::size_t>(mask.width),
                            i % static_cast<std::size_t>(mask.width), classes_, fmt::join(options_.values, ", ")));
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
