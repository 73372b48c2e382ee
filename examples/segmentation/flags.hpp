#pragma once
// What train_segmentation can be told besides what all programs can.
//
//     SegmentationFlags flags;
//     add_flags(app, flags);
#include <cstdint>
#include <string>

#include <headroom/examples/program/flags.hpp>
#include <headroom/nn/unet.hpp>

namespace headroom::segmentation {

struct SegmentationFlags : program::Flags {
    SegmentationFlags();

    std::string model = "unet";
    std::int64_t base_width = 8;
    bool bilinear = false;
    std::string from;

    std::string data;
    std::string images;
    std::string masks;
    std::string mask_suffix;
    std::int64_t ignore = -1;  ///< a value of masks; below 0: none
    std::int64_t clouds = 2800;
    double noise = 0.5;
    std::int64_t height = 256;
    std::int64_t width = 256;
    std::int64_t classes = 3;
    std::int64_t validation = 0;
    std::string flips = "both";
    double crop = 1;  ///< share of height and of width
    std::int64_t epochs = 1;
    int workers = 2;

    /// False: clouds are drawn.
    bool has_files() const { return !images.empty(); }
    nn::UNetOptions unet() const {
        return {.channels = 3, .classes = classes, .width = base_width, .bilinear = bilinear};
    }
};

/// Adds all of them, those of every program included.
void add_flags(CLI::App& app, SegmentationFlags& flags);

}  // namespace headroom::segmentation
