#pragma once
// The images and masks that train_segmentation trains on, from files or drawn.
//
//     const Split split = read_images(flags);
#include <string>

#include <headroom/data/image_sample.hpp>
#include <headroom/examples/segmentation/flags.hpp>

namespace headroom::segmentation {

struct Split {
    data::ImageSourcePointer training;
    data::ImageSourcePointer validation;
    std::string what;  ///< for people
};

/// Files are read when batches need them. Errors: FileError for folders without images and images without masks; Error
/// if no image is left to train on.
Split read_images(const SegmentationFlags& flags);

}  // namespace headroom::segmentation
