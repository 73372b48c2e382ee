#pragma once
// The images that train_detection is told to train on, drawn or read, with what makes batches of them.
//
//     const Images images = read_images(flags);
//     const Examples training = images.training_set(flags);
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/examples/detection/batches.hpp>
#include <headroom/examples/detection/flags.hpp>

namespace headroom::detection {

struct Images {
    data::ImageSourcePointer training;
    data::ImageSourcePointer validation;
    std::int64_t classes = 0;  ///< the background among them
    std::string what;          ///< for people: which images these are

    /// Of the size that the flags say, flipped at random.
    Examples training_set(const DetectionFlags& flags) const;
    /// Of the same size.
    Examples validation_set(const DetectionFlags& flags) const;
};

/// As many drawn ones: for rehearsals, where nobody looks at them, and nothing is to be read.
Examples rehearsal_set(const DetectionFlags& flags, std::int64_t count);

/// Errors: FileError that names the file or folder; Error for too few images for the flags, or more classes.
Images read_images(const DetectionFlags& flags);

}  // namespace headroom::detection
