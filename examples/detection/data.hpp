#pragma once
// The images that train_detection is told to train on, drawn or read, with what makes batches of them.
//
//     const Images images = read_images(flags);
//     const Examples training = images.training_set(flags);
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <headroom/examples/detection/batches.hpp>
#include <headroom/examples/detection/flags.hpp>

namespace headroom::detection {

struct Images {
    data::ImageSourcePointer training;
    data::ImageSourcePointer validation;
    std::int64_t classes = 0;                                ///< the background among them
    std::string what;                                        ///< for people: which images these are
    std::vector<std::string> class_names = {};               ///< by label
    std::function<std::vector<std::string>()> skipped = {};  ///< as `program::Program`'s

    /// Of the size in the flags, flipped at random.
    Examples training_set(const DetectionFlags& flags) const;
    /// Of the same size.
    Examples validation_set(const DetectionFlags& flags) const;
};

/// So many drawn images, for rehearsals: no file is read.
Examples rehearsal_set(const DetectionFlags& flags, std::int64_t count);

/// Errors: FileError that names the file or folder; Error if no image is left to train on, or for fewer classes in the
/// flags than in the data.
Images read_images(const DetectionFlags& flags);

}  // namespace headroom::detection
