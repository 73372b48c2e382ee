#pragma once
// What programs that train on images do alike: they hold images out for validation, and draw those of a batch.
//
//     std::tie(images.training, images.validation) = program::hold_out(all, flags.validation, flags.seed, flags.data);
//     const data::Image first = program::image_in(batch, 0, data::imagenet_scale());
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <headroom/data/image_dataset.hpp>

namespace headroom::program {

/// Splits images at random: those to train on, and as many as `wanted` to validate on, or a tenth if that is 0. Errors:
/// Error that names the folder if none is left to train on.
std::pair<data::ImageSourcePointer, data::ImageSourcePointer> hold_out(const data::ImageSourcePointer& all,
                                                                       std::int64_t wanted, std::uint64_t seed,
                                                                       const std::string& folder);

/// Image `row` of a batch, whose channels have that scale.
data::Image image_in(const data::ImageBatch& batch, std::size_t row, const std::vector<data::PixelScale>& scale);

}  // namespace headroom::program
