#pragma once
// Sources of images that lie in folders: a folder for each class, or pairs of images and masks. An error in a file is
// reported, with its name, when it is loaded.
//
//     const auto training = std::make_shared<data::ImageFolder>("photos/train");
//     const auto held_out = std::make_shared<data::ImageFolder>("photos/val",
//                                                               data::ImageFolderOptions{.classes = training->classes()});
//     const auto pairs = std::make_shared<data::MaskedImages>("scans/images", "scans/masks", /*classes=*/3);
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <headroom/data/image_sample.hpp>

namespace headroom::data {

struct ImageFolderOptions {
    /// Names in the order of labels; empty: the folders' names, sorted by their bytes. For other parts, in which a
    /// class may be missing, give the names of the training.
    std::vector<std::string> classes = {};
    Colors colors = Colors::rgb;
    Orientation orientation = Orientation::upright;
};

/// `folder`/CLASS/**.png, .jpg or .jpeg, as torchvision's ImageFolder; other files and hidden ones are left out, and so
/// are hidden folders. Links to folders are followed, each folder once for a class.
class ImageFolder : public ImageSource {
  public:
    /// Errors: FileError if there is no such folder, no class, a class without an image, one that is not named in the
    /// options, or an image of a kind that is not read (GIF, BMP, TIFF, WebP, PPM).
    explicit ImageFolder(const std::filesystem::path& folder, ImageFolderOptions options = {});

    const std::vector<std::string>& classes() const { return classes_; }
    std::int32_t label(std::int64_t index) const { return files_.at(static_cast<std::size_t>(index)).second; }
    /// For people: each folder that was left out, and why: hidden ones, and those that are looked into already.
    const std::vector<std::string>& left_out() const { return left_out_; }

    std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
    ImageSample load(std::int64_t index) const override;
    void check(std::int64_t index) const override;
    std::string name(std::int64_t index) const override;

  private:
    std::vector<std::string> classes_;
    ImageFolderOptions options_;
    std::vector<std::string> left_out_;
    std::vector<std::pair<std::filesystem::path, std::int32_t>> files_;
};

struct MaskedImagesOptions {
    /// A mask has the name of its image, with this before the ending: "a.jpg" and "a_mask.png".
    std::string mask_suffix = {};
    /// A value of masks that becomes `kIgnoredClass`, such as 255 for the borders of objects in Pascal VOC.
    std::optional<std::uint8_t> ignored_value = {};
    /// Values of masks in the order of classes, such as {0, 255}; empty: the classes themselves.
    std::vector<std::uint8_t> values = {};
    Colors colors = Colors::rgb;
    Orientation orientation = Orientation::upright;  // of images and of masks
};

/// Each image of a folder and its subfolders, with its mask at the same place in another folder: a PNG of ids
/// (`read_mask`). Endings may be in upper case: 0.JPG has the mask 0.png or 0.PNG.
class MaskedImages : public ImageSource {
  public:
    /// Errors: FileError if a folder is missing or has no image, or an image has no mask; Error unless there are 1 to
    /// 256 classes, and one value for each if values are given. `load`: BadImage for files that can't be read and for a
    /// mask whose size is not its image's; FileError for a value that is not a class, with its place.
    MaskedImages(const std::filesystem::path& images, const std::filesystem::path& masks, std::int64_t classes,
                 MaskedImagesOptions options = {});

    std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
    ImageSample load(std::int64_t index) const override;
    void check(std::int64_t index) const override;
    std::string name(std::int64_t index) const override;
    /// As `ImageFolder`'s.
    const std::vector<std::string>& left_out() const { return left_out_; }
    /// The file of a sample's mask.
    const std::filesystem::path& mask(std::int64_t index) const {
        return files_.at(static_cast<std::size_t>(index)).second;
    }

  private:
    bool is_turned(const std::filesystem::path& file) const;

    std::int64_t classes_;
    MaskedImagesOptions options_;
    std::vector<int> class_of_value_;  // [256]; -1: none
    std::vector<std::string> left_out_;
    std::vector<std::pair<std::filesystem::path, std::filesystem::path>> files_;
};

}  // namespace headroom::data
