#pragma once
// Files of named tensors in Hugging Face's safetensors format: eight bytes of header length (little-endian), a JSON
// header, then the tensors' bytes, row-major and little-endian, without gaps. No field of a file is trusted: every
// length, dtype, shape and offset is checked, against the others and the file's size, before a byte is used. A model in
// parts is read by its index, model.safetensors.index.json. A new file is written beside the old one, under a name of
// its own, and replaces it only when it is complete.
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
    std::size_t part = 0;  ///< the number of its file, where an index names several
    /// What keeps its values from being read, such as "F8_E4M3" or "F32 of rank 7"; dtype and shape mean nothing then.
    /// Empty: they can be read.
    std::string unreadable = {};
};

class SafetensorsFile {
  public:
    class OpenFile;  // of safetensors_read.cpp

    /// Opens the file, or the parts that it is the index of, and keeps them open: all reads are from these files, even
    /// if others take their names. Checks the whole headers. Errors: FileError that names the file, the tensor and what
    /// is wrong, or the part that is missing; for a file of another format it says which format that is.
    explicit SafetensorsFile(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return path_; }
    /// In ascending order of names.
    const std::vector<SafetensorsEntry>& entries() const { return entries_; }
    /// `name` may lack what stands before all names of the file: where each begins with "module.", "fc.weight" finds
    /// "module.fc.weight". A whole name goes before a shortened one. Null if there is none.
    const SafetensorsEntry* find(std::string_view name) const;
    const Metadata& metadata() const { return metadata_; }

    /// Fills `target`, of the entry's shape, converting the dtype. A dry context reads nothing. Errors: ShapeError if
    /// shapes differ; FileError if the file has changed.
    void copy_to(const SafetensorsEntry& entry, Context& context, const Array& target) const;
    /// The same for what may be a piece, which the entry has the whole of.
    void fill(const SafetensorsEntry& entry, Context& context, const NamedArray& target) const;

    /// The whole number in an entry of one element, of any dtype: of floating ones without its fraction. Errors:
    /// FileError if there is no such number in it, or the file has changed.
    std::int64_t count(const SafetensorsEntry& entry) const;

    /// True if both entries have one dtype, one shape and the same bytes. Errors: FileError if the file has changed.
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
    std::string prefix_;  ///< of all names, up to a dot
    Metadata metadata_;
};

/// For messages: that a file with such a name ("model-00001-of-00002.safetensors") is one of several parts, and what to
/// name instead, "; it is ..."; else empty.
std::string part_advice(const std::filesystem::path& path);

/// Writes tensors in ascending order of names: the same tensors give the same bytes. Errors: FileError if it can't be
/// written, and Error for two tensors of one name; an existing file is then as it was. Several processes may save to
/// one path: the last one to finish wins. If some are pieces, all ranks call it, and rank 0 writes.
void write_safetensors(const std::filesystem::path& path, Context& context, std::vector<NamedArray> tensors,
                       const Metadata& metadata = {});
/// The file that it would replace: links followed. Removes what killed processes left beside it. Errors: FileError if
/// something stands there that is no file: a folder, a device.
std::filesystem::path to_replace(const std::filesystem::path& path);
/// The bytes of the file that it would write, in place of what `file` held, for later. Errors: as above, but for what
/// concerns a file.
void copy_safetensors(std::vector<char>& file, Context& context, std::vector<NamedArray> tensors,
                      const Metadata& metadata = {});
/// Writes such bytes. For a process that may be killed at any moment: they are in their place before the system has
/// brought them to the disk. Errors: FileError if it can't be written; an existing file is then as it was.
void replace_file_at_once(const std::filesystem::path& path, std::span<const char> bytes);

}  // namespace headroom::files
