#pragma once
// Reads IDX files of bytes, the format of MNIST (http://yann.lecun.com/exdb/mnist): two zero bytes, type 8 (unsigned
// byte), rank, the dimensions as big-endian u32, the values. Files may be gzipped. The format's other types (i16 to
// f64) are not supported.
//
//     data::IdxImages images = data::read_idx_images("t10k-images-idx3-ubyte.gz");   // images.count x rows x columns
//     std::vector<uint8_t> labels = data::read_idx_labels("t10k-labels-idx1-ubyte.gz", /*classes=*/10);
//     data::LabelledImages mnist = data::read_labelled_images("data", "t10k", /*classes=*/10);  // both, from a folder
//     uint8_t corner = mnist.images.pixels[0];
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace headroom::data {

struct IdxArray {
    std::vector<std::int64_t> shape;   // rank 1 to 6, every dimension at least 1
    std::vector<std::uint8_t> values;  // row-major
};

/// Allocates at most about twice the file's real contents, whatever sizes it states. Errors: FileError, with what is
/// wrong and where, for a file that can't be read, is not IDX, is damaged gzip, has another type or no values, ends
/// early, continues after the last value, or states a size that overflows.
IdxArray read_idx(const std::filesystem::path& path);

struct IdxImages {
    std::int64_t count, rows, columns;
    std::vector<std::uint8_t> pixels;  // [count, rows, columns]
};

/// Errors: FileError as `read_idx`, or if the rank is not 3.
IdxImages read_idx_images(const std::filesystem::path& path);

/// Errors: FileError as `read_idx`, if the rank is not 1, or for a label that is not below `classes`.
std::vector<std::uint8_t> read_idx_labels(const std::filesystem::path& path, std::int64_t classes);

struct LabelledImages {
    IdxImages images;
    std::vector<std::uint8_t> labels;  // one for each image
};

/// Reads `folder`/`prefix`-images-idx3-ubyte and -labels-idx1-ubyte, with or without ".gz", also with a dot before
/// "idx" as in train-images.idx3-ubyte. `prefix` is "train" or "t10k" for MNIST and its relatives. Errors: FileError as
/// above, if a file is missing, or if the counts differ.
LabelledImages read_labelled_images(const std::filesystem::path& folder, std::string_view prefix, std::int64_t classes);

/// True if at least one of the two files exists.
bool has_labelled_images(const std::filesystem::path& folder, std::string_view prefix);

}  // namespace headroom::data
