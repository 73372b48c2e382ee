#pragma once
// Reads the binary files of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html, "binary version"):
// records of labels and 32 x 32 pixels in three planes. Does not read the Python or Matlab versions.
//
//     const auto training = data::read_cifar10("cifar-10-batches-bin", data::CifarPart::train);
//     const data::ImageDataset images(training, {.transforms = {data::RandomCrop{.height = 32, .width = 32, .padding = 4}}});
#include <filesystem>
#include <memory>

#include <headroom/data/image_sample.hpp>

namespace headroom::data {

enum class CifarPart { train, test };

/// Reads data_batch_1.bin to data_batch_5.bin, or test_batch.bin, from `folder`; files may have any number of records.
/// Errors: FileError if a file is missing, ends within a record, or has a label above 9, with its position.
std::shared_ptr<const MemoryImages> read_cifar10(const std::filesystem::path& folder, CifarPart part);

/// Reads train.bin or test.bin from `folder`, with the labels of CIFAR-100's 100 fine classes, not of its 20
/// superclasses. Errors: as `read_cifar10`, with labels up to 99.
std::shared_ptr<const MemoryImages> read_cifar100(const std::filesystem::path& folder, CifarPart part);

enum class CifarKind { none, ten, hundred };

/// Which of the two datasets `folder` contains. Errors: FileError for files of the Python or Matlab version; the
/// message names the version to download.
CifarKind find_cifar(const std::filesystem::path& folder);

}  // namespace headroom::data
