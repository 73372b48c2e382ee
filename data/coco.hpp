#pragma once
// Images with objects, as COCO's JSON files describe them (https://cocodataset.org/#format-data, "object detection"):
// the lists "images", "categories" and "annotations". Masks are polygons or run lengths, also those of crowds, and are
// drawn when an image is loaded. Values are read as pycocotools reads them: ids are numbers, also as 1.0, or texts, and
// `iscrowd` is anything that Python's `if` takes. Not for key points, captions or panoptic segments.
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

/// A category whose label is none of `CocoOptions::classes`: another `labels_are_ids` may do.
class BadLabel : public FileError {
  public:
    using FileError::FileError;
};

struct CocoOptions {
    /// Annotations need masks.
    bool masks = true;
    /// Labels are the categories' ids, as in torchvision's weights (91 classes for COCO); else 1, 2, ... in the order
    /// of the ids.
    bool labels_are_ids = false;
    /// Labels must be below it; 0: any.
    std::int64_t classes = 0;
    /// Images without objects are samples, too.
    bool keep_empty = true;
    Colors colors = Colors::rgb;
    /// None: boxes and masks refer to the pixels that were annotated, so an image is turned only if it has the size in
    /// the JSON file in no other way. Where both sizes fit (upside down, mirrored, square), it stays as stored, as in
    /// torchvision's CocoDetection.
    std::optional<Orientation> orientation = {};
};

class CocoImages : public ImageSource {
  public:
    /// Boxes are clipped to their image. An annotation that can't be used is left out, and no other one with it: one
    /// without values that are needed, of an image or a category that is not listed, whose box has no area or lies
    /// outside of its image (COCO's own files have a few), or with a mask that can't be drawn or has another size than
    /// its image; of several polygons the others are drawn. Errors: FileError with the file and the line or the id for
    /// JSON that can't be read, images and categories whose values are missing or no numbers, or whose ids occur twice,
    /// and a file without images; BadLabel. `load`: BadImage for images that can't be read or have
    /// another size than the file says.
    CocoImages(const std::filesystem::path& annotations, const std::filesystem::path& images, CocoOptions options = {});

    /// Names by label; empty for labels that no category has.
    const std::vector<std::string>& classes() const { return classes_; }
    /// The number of objects in all images, without crowds.
    std::int64_t objects() const;
    /// The number of those that images have beyond `most` each.
    std::int64_t objects_beyond(std::int64_t most) const;
    /// A line for each annotation that was left out, and why.
    const std::vector<std::string>& skipped() const { return skipped_; }
    /// A line for each annotation that lost polygons, and why.
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

    /// How an image is read that has one size as stored and, perhaps, another one upright.
    Orientation orientation(const Entry& entry, const ImageHeader& header) const;

    std::string path_;
    CocoOptions options_;
    std::vector<std::string> classes_;
    std::vector<std::string> skipped_, trimmed_;
    std::vector<Entry> entries_;
};

}  // namespace headroom::data
