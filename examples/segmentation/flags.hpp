#pragma once
// What train_segmentation can be told beside what every program can.
//
//     SegmentationFlags flags;
//     add_flags(app, flags);
#include <cstdint>
#include <string>

#include <headroom/examples/program/images.hpp>
#include <headroom/nn/unet.hpp>

namespace headroom::segmentation {

struct SegmentationFlags : program::ImageFileFlags {
    SegmentationFlags();

    std::string model = "unet";
    std::int64_t base_width = 8;
    bool bilinear = false;
    std::string from;  ///< a file of milesial's weights to begin with

    std::string data;    ///< folder with the next two
    std::string images;  ///< folder; empty: clouds are drawn
    std::string masks;   ///< folder
    std::string mask_suffix;
    std::string mask_values;     ///< of the classes in their order: "0,255"; empty: the classes themselves
    std::int64_t ignore = -1;    ///< a value of masks; below 0: none
    std::int64_t clouds = 2800;  ///< to draw
    double noise = 0.5;
    std::int64_t height = 256;  ///< pixels
    std::int64_t width = 256;
    std::int64_t classes = 3;
    std::int64_t validation = 0;  ///< images; 0: 100 drawn ones, or a tenth of the files
    std::string flips = "both";
    double crop = 1;  ///< share of height and of width

    bool has_files() const { return !images.empty(); }
    nn::UNetOptions unet() const {
        return {.channels = 3, .classes = classes, .width = base_width, .bilinear = bilinear};
    }
};

/// Ranges are checked by the parser: out of range is wrong usage.
void add_flags(CLI::App& app, SegmentationFlags& flags);

}  // namespace headroom::segmentation
