#pragma once
// CIFAR-10's binary files (https://www.cs.toronto.edu/~kriz/cifar.html, "binary version"): records of a label and 32 x
// 32 pixels in three planes. Not for its Python or Matlab versions.
//
//     const auto training = data::read_cifar10("cifar-10-batches-bin", data::CifarPart::train);
//     const data::ImageDataset images(training, {.transforms = {data::RandomCrop{.height = 32, .width = 32, .padding = 4}}});
#include <filesystem>
#include <memory>

#include <headroom/data/image_sample.hpp>

namespace headroom::data {

enum class CifarPart { train, test };

/// data_batch_1.bin to data_batch_5.bin of the folder, or test_batch.bin; files may have any number of records. Errors:
/// FileError if one is missing, ends within a record, or has a label above 9, with its place.
std::shared_ptr<const MemoryImages> read_cifar10(const std::filesystem::path& folder, CifarPart part);

}  // namespace headroom::data
