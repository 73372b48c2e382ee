#pragma once
// Sources of images in folders: one folder per class, or pairs of images and masks. An error in a file is reported,
// with its name, when the file is loaded.
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
    /// Class names in label order; empty: the folders' names, sorted by their bytes. For other splits, where a class
    /// may be missing, pass the training split's names.
    std::vector<std::string> classes = {};
    Colors colors = Colors::rgb;
    Orientation orientation = Orientation::upright;
};

/// `folder`/CLASS/**.png, .jpg or .jpeg, as in torchvision's ImageFolder. Other files, hidden files and hidden folders
/// are skipped. Links to folders are followed, each folder once per class.
class ImageFolder : public ImageSource {
  public:
    /// Errors: FileError if the folder does not exist or has no class, if a class has no image or is not named in the
    /// options, or for an image of an unsupported kind (GIF, BMP, TIFF, WebP, PPM).
    explicit ImageFolder(const std::filesystem::path& folder, ImageFolderOptions options = {});

    const std::vector<std::string>& classes() const { return classes_; }
    std::int32_t label(std::int64_t index) const { return files_.at(static_cast<std::size_t>(index)).second; }
    /// One line per skipped folder with the reason: it is hidden, or it was visited already.
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
    /// A mask has its image's name with this suffix before the extension: "a.jpg" and "a_mask.png".
    std::string mask_suffix = {};
    /// A mask value that becomes `kIgnoredClass`, such as 255 for object borders in Pascal VOC.
    std::optional<std::uint8_t> ignored_value = {};
    /// Mask values in class order, such as {0, 255}; empty: values are the class ids.
    std::vector<std::uint8_t> values = {};
    Colors colors = Colors::rgb;
    Orientation orientation = Orientation::upright;  // of images and of masks
};

/// Each image of a folder and its subfolders, with its mask at the same relative path in another folder: a PNG of ids
/// (`read_mask`). Extensions may be in upper case: 0.JPG has the mask 0.png or 0.PNG.
class MaskedImages : public ImageSource {
  public:
    /// Errors: FileError if a folder is missing or has no image, or if an image has no mask; Error unless there are 1
    /// to 256 classes, with one value per class if values are given. `load`: BadImage for a file that can't be read or
    /// a mask of a different size than its image; FileError for a value that is not a class, with its position.
    MaskedImages(const std::filesystem::path& images, const std::filesystem::path& masks, std::int64_t classes,
                 MaskedImagesOptions options = {});

    std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
    ImageSample load(std::int64_t index) const override;
    void check(std::int64_t index) const override;
    std::string name(std::int64_t index) const override;
    /// As `ImageFolder::left_out`.
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
