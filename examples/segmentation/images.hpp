#pragma once
// The images with masks that train_segmentation is told of: from files, or drawn.
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

/// Files are read when batches need them. Errors: FileError or Error for folders without images, images without masks,
/// or fewer than `flags.validation` and a batch.
Split read_images(const SegmentationFlags& flags);

}  // namespace headroom::segmentation
