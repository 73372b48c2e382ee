#pragma once
// What train_images can be told beside what every program can. Defaults are for the small network on MNIST's digits.
//
//     ImageFlags flags;
//     add_flags(app, flags);
#include <cstdint>
#include <string>

#include <headroom/examples/program/images.hpp>

namespace headroom::images {

struct ImageFlags : program::ImageFileFlags {
    ImageFlags();
    std::string data;  ///< folder; empty: none, for rehearsals
    std::string model = "small";
    std::int64_t height = 0;  ///< pixels; 0: as the data has them, or 224
    std::int64_t width = 0;
    std::int64_t classes = 0;     ///< 0: as many as the data has
    std::int64_t validation = 0;  ///< images; 0: the data's own, or a tenth
    std::string augment = "auto";
    double label_smoothing = 0;
    std::string from;  ///< a file of torchvision's weights to begin with
};

/// Ranges are checked by the parser: out of range is wrong usage.
void add_flags(CLI::App& app, ImageFlags& flags);

}  // namespace headroom::images
