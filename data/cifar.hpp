#pragma once
// The binary files of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html, "binary version"): records
// of labels and of 32 x 32 pixels in three planes. Not for their Python or Matlab versions.
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

/// train.bin of the folder, or test.bin, with the labels of CIFAR-100's 100 classes; not with those of its 20 groups.
/// Errors: as `read_cifar10`, for a label above 99.
std::shared_ptr<const MemoryImages> read_cifar100(const std::filesystem::path& folder, CifarPart part);

enum class CifarKind { none, ten, hundred };

/// Which of the two a folder has files of. Errors: FileError for files of another version, which says which to get.
CifarKind find_cifar(const std::filesystem::path& folder);

}  // namespace headroom::data
