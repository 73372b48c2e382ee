#pragma once
// The images and masks that train_segmentation trains on, from files or drawn.
//
//     const Split split = read_images(flags);
#include <functional>
#include <string>
#include <vector>

#include <headroom/data/image_sample.hpp>
#include <headroom/examples/segmentation/flags.hpp>

namespace headroom::segmentation {

struct Split {
    data::ImageSourcePointer training;
    data::ImageSourcePointer validation;
    std::string what;                                        ///< for people
    std::function<std::vector<std::string>()> skipped = {};  ///< as `program::Program`'s
};

/// Files are decoded when batches need them. Errors: FileError for folders without images, images without masks, and as
/// `program::look_through`; Error if no image is left to train on.
Split read_images(const SegmentationFlags& flags);

}  // namespace headroom::segmentation
