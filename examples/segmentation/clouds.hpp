#pragma once
// Clouds that are drawn, for a training without files: a smooth random field is the thickness of the clouds, its levels
// are the classes of the mask, and the image shows it as the mix of blue and white, under noise. A pixel alone says
// little of its class; its surroundings do.
//
//     const auto clouds = std::make_shared<segmentation::Clouds>(
//         segmentation::CloudOptions{.height = 256, .width = 256, .count = 1000, .seed = 1});
//     const data::ImageSample sample = clouds->load(17);
#include <cstdint>
#include <string>

#include <headroom/data/image_sample.hpp>

namespace headroom::segmentation {

struct CloudOptions {
    std::int64_t height = 256;
    std::int64_t width = 256;
    std::int64_t classes = 3;
    double noise = 0.5;      ///< its deviation in each colour; the field's is 1
    std::int64_t first = 0;  ///< number of the first one
    std::int64_t count = 1;
    std::uint64_t seed = 0;
};

/// A cloud is a function of the seed and its number: clouds with other numbers are others.
class Clouds final : public data::ImageSource {
  public:
    explicit Clouds(const CloudOptions& options) : options_(options) {}

    std::int64_t size() const override { return options_.count; }
    data::ImageSample load(std::int64_t index) const override;
    std::string name(std::int64_t index) const override;

  private:
    CloudOptions options_;
};

}  // namespace headroom::segmentation
