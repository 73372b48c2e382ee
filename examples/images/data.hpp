#pragma once
// The images that train_images is told to train on, whichever kind of folder they are in, with the transforms that make
// batches of them.
//
//     const Images images = read_images(flags);
//     const data::ImageDataset training = images.training_set(flags.seed);
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/data/image_dataset.hpp>
#include <headroom/examples/images/flags.hpp>

namespace headroom::images {

struct Images {
    data::ImageSourcePointer training = {};
    data::ImageSourcePointer validation = {};
    std::int64_t height = 0;  ///< of what a model gets
    std::int64_t width = 0;
    std::int64_t channels = 0;
    std::int64_t classes = 0;
    std::vector<std::string> class_names = {};    ///< their numbers where the data has no names
    std::vector<data::ImageTransform> vary = {};  ///< training images
    std::vector<data::ImageTransform> fit = {};   ///< images of validation
    std::vector<data::PixelScale> scale = {};
    std::string augment = {};  ///< how training images vary
    std::string what = {};     ///< for people: which images these are, and what is done to them

    /// Of batches for training, or for validation.
    data::ImageDataset training_set(std::uint64_t seed) const;
    data::ImageDataset validation_set() const;
    /// As many images of the same size, of which nothing is read: for rehearsals, where nobody looks at pixels.
    data::ImageDataset blank(std::int64_t count) const;
};

/// Errors: FileError that names the file or folder; Error for too few images for the flags, or more classes.
Images read_images(const ImageFlags& flags);

}  // namespace headroom::images
