#pragma once
// MNIST's images as a data set, and how training varies them.
//
//     const Images images = read_images("data");
//     shift(pixels, rows, 2, key);
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/data/dataset.hpp>
#include <headroom/kernels/random/philox.hpp>

namespace headroom::mnist {

using Images = data::MemoryDataset<std::int32_t>;

inline constexpr std::int64_t kSide = 28;  ///< pixels

/// From the IDX files in a folder, scaled to a mean of 0 and a deviation of 1. Errors: FileError that names the file.
Images read_images(const std::string& folder);

/// Moves each image by its own random offset, rows and columns each within [-most, most]; what comes in is background.
void shift(std::vector<float>& images, std::int64_t rows, std::int64_t most, const kernels::RandomKey& key);

}  // namespace headroom::mnist
