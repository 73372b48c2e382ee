#pragma once
// The images that train_images is told to train on, whichever kind of folder they are in, with the transforms that make
// batches of them.
//
//     const Images images = read_images(flags);  // of DataFlags
//     const data::ImageDataset training = images.training_set(flags.seed);
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <headroom/data/image_dataset.hpp>
#include <headroom/examples/cli/images.hpp>

namespace headroom::images {

/// What decides which images there are, and how a model gets them.
struct DataFlags : cli::ImageFileFlags {
    std::string data;             ///< folder; empty: none, for rehearsals
    std::string model = "small";  ///< of `Classifier`
    std::int64_t height = 0;      ///< pixels; 0: as the data has them, or 224
    std::int64_t width = 0;
    std::int64_t classes = 0;     ///< 0: as many as the data has
    std::int64_t validation = 0;  ///< images; 0: the data's own, or a tenth
    std::string augment = "auto";
};

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
    std::function<std::vector<std::string>()> skipped = {};  ///< as `Program`'s

    /// Of batches for training, or for validation.
    data::ImageDataset training_set(std::uint64_t seed) const;
    data::ImageDataset validation_set() const;
    /// So many images of the same size, for rehearsals: no file is read.
    data::ImageDataset blank(std::int64_t count) const;
};

/// Errors: FileError that names the file or folder; Error if no image is left to train on, or for fewer classes in the
/// flags than in the data.
Images read_images(const DataFlags& flags);

}  // namespace headroom::images
