#pragma once
// Images of drawn shapes for learning to detect: circles, rectangles and triangles of several sizes and colours on
// noisy backgrounds, some in front of others. An image is drawn when it is loaded, on the loader's threads, and takes
// no memory before.
//
//     const auto shapes = std::make_shared<detection::Shapes>(detection::ShapesOptions{.count = 1000, .seed = 1});
//     const data::ImageSample sample = shapes->load(0);  // sample.objects[0].box, .label, .mask
#include <array>
#include <cstdint>
#include <string>

#include <headroom/data/image_sample.hpp>

namespace headroom::detection {

struct ShapesOptions {
    std::int64_t count = 0;
    std::int64_t height = 128, width = 128;
    std::int64_t most = 4;  ///< shapes in an image
    std::uint64_t seed = 0;
};

/// Image `index` is a function of the seed and of `index`. Each has 1 to `most` shapes, of which at least half is to be
/// seen; boxes and masks are of what is to be seen.
class Shapes : public data::ImageSource {
  public:
    /// By label.
    static constexpr std::array<const char*, 4> names{"background", "circle", "rectangle", "triangle"};
    /// Pixels of each side.
    static constexpr std::int64_t least_side = 16;

    /// Errors: ShapeError for images below `least_side`, no image, or no shape.
    explicit Shapes(const ShapesOptions& options);

    std::int64_t size() const override { return options_.count; }
    data::ImageSample load(std::int64_t index) const override;
    std::string name(std::int64_t index) const override;

  private:
    ShapesOptions options_;
};

}  // namespace headroom::detection
