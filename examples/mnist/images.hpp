#pragma once
// MNIST's images as a data set, and how training varies them.
//
//     const Split split = read_images("data", 0, 100);
//     shift(pixels, rows, 2, key);
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/data/dataset.hpp>
#include <headroom/kernels/random/philox.hpp>

namespace headroom::mnist {

using Images = data::MemoryDataset<std::int32_t>;

inline constexpr std::int64_t kSide = 28;  ///< pixels

struct Split {
    Images training;
    Images validation;
    std::string what;  ///< for people: which files these are
};

/// From the IDX files in a folder, scaled to a mean of 0 and a deviation of 1: trains on "train-*" and validates on
/// "t10k-*", or on the first `validation` of those; without "train-*" trains on "t10k-*", but for the last `validation`
/// (1000 of them if it is 0). Errors: FileError that names the file; Error if there are too few for `validation` and a
/// batch.
Split read_images(const std::string& folder, std::int64_t validation, std::int64_t batch);

/// Moves each image by its own random offset, rows and columns each within [-most, most]; what comes in is background.
void shift(std::vector<float>& images, std::int64_t rows, std::int64_t most, const kernels::RandomKey& key);

}  // namespace headroom::mnist
