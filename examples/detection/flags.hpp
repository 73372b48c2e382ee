#pragma once
// What train_detection can be told beside what every program can. Defaults are for drawn shapes.
//
//     DetectionFlags flags;
//     add_flags(app, flags);
#include <cstdint>
#include <string>

#include <headroom/examples/program/images.hpp>

namespace headroom::detection {

struct DetectionFlags : program::ImageFileFlags {
    DetectionFlags();
    std::string model = "maskrcnn";
    std::string backbone = "resnet18";
    std::string data;         ///< folder with images; empty: shapes are drawn
    std::string annotations;  ///< COCO's JSON; empty: the one in the folder
    bool skip_bad_boxes = false;
    std::int64_t height = 128;  ///< pixels
    std::int64_t width = 128;
    std::int64_t classes = 0;     ///< the background among them; 0: as many as the data has
    std::int64_t images = 1000;   ///< to draw
    std::int64_t validation = 0;  ///< images; 0: 100 drawn ones, or a tenth of the data
    std::int64_t objects = 8;     ///< of an image
    std::int64_t regions = 64;    ///< of an image
    std::int64_t pyramid = 64;    ///< channels, of the mask's head as well
    std::int64_t hidden = 256;    ///< width behind the pooled regions
    std::string from;             ///< a file of torchvision's weights to begin with

    bool masks() const { return model == "maskrcnn"; }
};

/// Ranges are checked by the parser: out of range is wrong usage.
void add_flags(CLI::App& app, DetectionFlags& flags);

}  // namespace headroom::detection
