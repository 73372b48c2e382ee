#pragma once
// Reads whole files, with errors that say what is wrong with the file and what to do. For text with a vocabulary use
// text.hpp, for tokens tokens.hpp, for images idx.hpp. Map a large file if you need only parts of it.
//
//     std::string text = data::read_file("input.txt");
//     data::MappedFile tokens("train.bin");
//     std::span<const std::byte> bytes = tokens.bytes();
//     std::string end = data::FileParts("photo.jpg").read(1000, 2);
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace headroom::data {

/// The bytes of a file; a pipe is read to its end. Errors: FileError if it is missing, a folder, a device, empty, or
/// can't be read.
std::string read_file(const std::filesystem::path& path);

/// The checks of `read_file`, for readers that open the file themselves: throws FileError unless `path` is a readable
/// file or pipe with at least one byte. Returns its size, or 0 if unknown.
std::size_t check_file(const std::filesystem::path& path);

/// A file mapped as read-only memory; the system loads pages as they are touched. The file must not shrink while it is
/// mapped: reading beyond its new end kills the program (SIGBUS).
class MappedFile {
  public:
    /// Errors: as `read_file`; also if `path` is not a regular file.
    explicit MappedFile(const std::filesystem::path& path);
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    std::span<const std::byte> bytes_;
};

/// Reads parts of a file, for readers that need little of it.
class FileParts {
  public:
    /// Errors: as `MappedFile`.
    explicit FileParts(const std::filesystem::path& path);
    FileParts(const FileParts&) = delete;
    FileParts& operator=(const FileParts&) = delete;
    ~FileParts();

    std::size_t size() const { return size_; }
    /// `count` bytes from `offset` on, or all that are left. Errors: FileError if they can't be read.
    std::string read(std::size_t offset, std::size_t count) const;

  private:
    std::filesystem::path path_;
    std::size_t size_ = 0;
    int descriptor_ = -1;
};

}  // namespace headroom::data
