#pragma once
// Files of named tensors in Hugging Face's safetensors format: eight bytes of header length (little-endian), a JSON
// header, then the tensors' bytes, row-major and little-endian, without gaps. No field of a file is trusted: every
// length, dtype, shape and offset is checked, against the others and the file's size, before a byte is used. A model
// that is split into several files is read through its index, model.safetensors.index.json. A new file is written next
// to the old one under another name, and replaces it only once it is complete.
//
//     files::write_safetensors("model.safetensors", context, {{"weight", weight.array()}}, {{"made_by", "me"}});
//     files::SafetensorsFile file("model.safetensors");
//     const files::SafetensorsEntry* entry = file.find("weight");
//     file.copy_to(*entry, context, weight.array());
//
// Source: https://github.com/huggingface/safetensors, "Format".
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/named_array.hpp>

namespace headroom::files {

using Metadata = std::map<std::string, std::string>;

struct SafetensorsEntry {
    std::string name;
    Dtype dtype = Dtype::f32;
    Shape shape;
    std::uint64_t begin = 0;  ///< bytes from the start of its file
    std::uint64_t end = 0;
    std::size_t part = 0;  ///< index of its file, if the model is split into several
    /// Why the values can't be read, such as "F8_E4M3" or "F32 of rank 7"; `dtype` and `shape` are then meaningless.
    /// Empty: they can be read.
    std::string unreadable = {};
};

class SafetensorsFile {
  public:
    class OpenFile;  // defined in safetensors_read.cpp

    /// Opens the file, or the parts that it indexes, and keeps them open. All reads are from these files, even after
    /// other files replace them. Checks the complete headers. Errors: FileError that names the file, the tensor and
    /// what is wrong, or the missing part; for a file of another format it names that format.
    explicit SafetensorsFile(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return path_; }
    /// Sorted by name.
    const std::vector<SafetensorsEntry>& entries() const { return entries_; }
    /// `name` may omit the common prefix of all names in the file: if each begins with "module.", "fc.weight" finds
    /// "module.fc.weight". A full name takes precedence. Null if there is no such entry.
    const SafetensorsEntry* find(std::string_view name) const;
    const Metadata& metadata() const { return metadata_; }

    /// Fills `target`, of the entry's shape, converting the dtype. A dry context reads nothing. Errors: ShapeError if
    /// shapes differ; FileError if the file has changed.
    void copy_to(const SafetensorsEntry& entry, Context& context, const Array& target) const;
    /// As `copy_to` for a target that may be a shard of the entry's tensor.
    void fill(const SafetensorsEntry& entry, Context& context, const NamedArray& target) const;

    /// The number in an entry with one element of any dtype; floating-point values are truncated. Errors: FileError if
    /// the entry holds no such number, or if the file has changed.
    std::int64_t count(const SafetensorsEntry& entry) const;

    /// True if both entries have the same dtype, shape and bytes. Errors: FileError if the file has changed.
    bool equal(const SafetensorsEntry& a, const SafetensorsEntry& b) const;

  private:
    void add_file(std::shared_ptr<const OpenFile> file);
    void add_parts(const std::map<std::string, std::string>& part_of);
    void sort_entries();
    void check_readable(const SafetensorsEntry& entry) const;
    void read(const SafetensorsEntry& entry, std::uint64_t offset, std::span<char> bytes) const;
    void check_shape(const SafetensorsEntry& entry, const Shape& wanted) const;

    std::filesystem::path path_;
    std::vector<std::shared_ptr<const OpenFile>> files_;
    std::vector<SafetensorsEntry> entries_;
    std::string prefix_;  ///< common prefix of all names, up to and including a dot
    Metadata metadata_;
};

/// For messages: if the file's name ("model-00001-of-00002.safetensors") is that of one part of a model, a text "; it
/// is ..." that says so and names the file to use instead; else empty.
std::string part_advice(const std::filesystem::path& path);

/// Writes tensors sorted by name, so the same tensors give the same bytes. Several processes may save to one path: the
/// last one to finish wins. If some tensors are shards, all ranks must call it, and rank 0 writes. Errors: FileError if
/// the file can't be written; Error if two tensors have the same name. An existing file is then unchanged.
void write_safetensors(const std::filesystem::path& path, Context& context, std::vector<NamedArray> tensors,
                       const Metadata& metadata = {});
/// The file that a write to `path` would replace, after following links. Removes leftovers of killed processes next to
/// it. Errors: FileError if `path` is not a file but a folder or device.
std::filesystem::path to_replace(const std::filesystem::path& path);
/// Replaces the contents of `file` by the bytes that `write_safetensors` would write. Errors: as `write_safetensors`,
/// except those of writing the file.
void copy_safetensors(std::vector<char>& file, Context& context, std::vector<NamedArray> tensors,
                      const Metadata& metadata = {});
/// Replaces the file at `path` by `bytes`, for a process that may be killed at any moment: the file is in place before
/// the system has flushed it to disk. Errors: FileError if it can't be written; an existing file is then unchanged.
void replace_file_at_once(const std::filesystem::path& path, std::span<const char> bytes);

}  // namespace headroom::files
