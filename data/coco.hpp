#pragma once
// Reads images with objects from COCO's JSON files (https://cocodataset.org/#format-data, "object detection"): the
// lists "images", "categories" and "annotations". Masks, including those of crowds, are polygons or run lengths and are
// drawn when an image is loaded. Values are interpreted as in pycocotools: ids are strings or numbers, including forms
// like 1.0, and `iscrowd` is anything with a truth value in Python. Key points, captions and panoptic segments are not
// supported.
//
//     const auto training = std::make_shared<data::CocoImages>("annotations/instances_train2017.json", "train2017");
//     const std::vector<std::string>& names = training->classes();  // names[0] is "background"
//     const data::ImageSample sample = training->load(0);           // sample.objects[0].box, .label, .mask
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <headroom/data/image_header.hpp>
#include <headroom/data/image_sample.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {

/// Thrown if a category's label is not below `CocoOptions::classes`. Changing `labels_are_ids` may help.
class BadLabel : public FileError {
  public:
    using FileError::FileError;
};

struct CocoOptions {
    /// Annotations must have masks.
    bool masks = true;
    /// Labels are the category ids, as in torchvision's weights (91 classes for COCO); otherwise 1, 2, ... in id order.
    bool labels_are_ids = false;
    /// Labels must be below this; 0: no limit.
    std::int64_t classes = 0;
    /// Keeps images without objects as samples.
    bool keep_empty = true;
    Colors colors = Colors::rgb;
    /// None: chosen per image. Boxes and masks refer to the pixels that were annotated, so an image is rotated by its
    /// EXIF data only if its size would otherwise differ from the JSON file's. If both sizes match (upside down,
    /// mirrored, square), it stays as stored, as in torchvision's CocoDetection.
    std::optional<Orientation> orientation = {};
};

class CocoImages : public ImageSource {
  public:
    /// Boxes are clipped to their image. Unusable annotations are skipped one by one: those that lack required values,
    /// refer to an unlisted image or category, have a box without area or outside of the image (COCO's own files have a
    /// few), or have a mask that can't be drawn or has a different size than the image. If one of several polygons is
    /// unusable, the others are drawn. Errors: FileError, with the file and the line or id, for invalid JSON, for
    /// images and categories with missing, non-numeric or duplicate values or ids, and for a file without images;
    /// BadLabel. `load`: BadImage for an image that can't be read or has a different size than the JSON file states.
    CocoImages(const std::filesystem::path& annotations, const std::filesystem::path& images, CocoOptions options = {});

    /// Names by label; empty for labels without a category.
    const std::vector<std::string>& classes() const { return classes_; }
    /// The number of objects in all images, without crowds.
    std::int64_t objects() const;
    /// The number of objects beyond the first `most` of each image, without crowds.
    std::int64_t objects_beyond(std::int64_t most) const;
    /// One line per skipped annotation, with the reason.
    const std::vector<std::string>& skipped() const { return skipped_; }
    /// One line per annotation that lost polygons, with the reason.
    const std::vector<std::string>& trimmed() const { return trimmed_; }

    std::int64_t size() const override { return static_cast<std::int64_t>(entries_.size()); }
    ImageSample load(std::int64_t index) const override;
    void check(std::int64_t index) const override;
    std::string name(std::int64_t index) const override;

  private:
    friend class CocoReader;  // coco_reader.cpp

    struct Annotation {
        std::int64_t id = 0;
        Box box;
        std::int32_t label = 0;
        bool crowd = false;
        std::vector<std::vector<double>> polygons;
        std::vector<std::uint32_t> runs;
    };
    struct Entry {
        std::string id;
        std::filesystem::path file;
        std::int64_t height = 0, width = 0;
        std::vector<Annotation> annotations;
    };

    /// The orientation in which to read an image, whose stored and upright sizes may differ.
    Orientation orientation(const Entry& entry, const ImageHeader& header) const;

    std::string path_;
    CocoOptions options_;
    std::vector<std::string> classes_;
    std::vector<std::string> skipped_, trimmed_;
    std::vector<Entry> entries_;
};

}  // namespace headroom::data
