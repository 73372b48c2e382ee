#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <headroom/core/transfer.hpp>
#include <headroom/files/internal/array_bytes.hpp>
#include <headroom/files/internal/safetensors_header.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/files/safetensors_dtypes.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/progress.hpp>

namespace headroom::files {

namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
    return path.has_parent_path() ? path.parent_path() : ".";
}

void remove_abandoned(const std::filesystem::path& path) {
    const std::string begin = path.filename().string() + ".";
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder_of(path), error)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with(begin) || !name.ends_with(".partial") || !entry.is_regular_file(error)) continue;
        if (name.size() != begin.size() + 8 + std::string_view(".partial").size()) continue;
        const int file = ::open(entry.path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (file < 0) continue;
        if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
        ::close(file);
    }
}

}  // namespace

std::filesystem::path to_replace(const std::filesystem::path& path) {
    if (path.native().find('\0') != std::string::npos)
        throw FileError(path.string() + ": a path must not contain a NUL");
    std::filesystem::path file = path;
    std::error_code error;
    for (int links = 0; std::filesystem::is_symlink(file, error) && links < 40; ++links) {  // as the system does
        file = file.parent_path() / std::filesystem::read_symlink(file, error);
    }
    if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error)) {
        throw FileError(fmt::format("{}: not a regular file, so it can't be replaced", file.string()));
    }
    remove_abandoned(file);
    return file;
}

namespace {

/// A file beside `path` that takes its place when it is complete, or disappears. Its name is its own, so that of
/// several that save to one path the last one to finish wins, whole. While it is written it is locked: what lies there
/// unlocked was left by a process that was killed, and is removed.
class FileAside {
  public:
    explicit FileAside(const std::filesystem::path& path) : path_(to_replace(path)) {
        std::random_device random;
        do {
            if (file_ >= 0) ::close(file_);  // somebody took it for abandoned before it was locked
            aside_ = fmt::format("{}.{:08x}.partial", path_.string(), random());
            file_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
            if (file_ < 0 && errno != EEXIST) fail("can't be created");
        } while (file_ < 0 || (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) || !is_there());
    }
    FileAside(const FileAside&) = delete;
    FileAside& operator=(const FileAside&) = delete;
    ~FileAside() {
        if (file_ >= 0) ::close(file_);
        if (!complete_) ::unlink(aside_.c_str());
    }

    void write(const void* data, std::size_t bytes) {
        const char* next = static_cast<const char*>(data);
        while (bytes > 0) {
            const ssize_t written = ::write(file_, next, std::min(bytes, memory::kFilePiece));
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) fail("can't be written");
            next += written;
            bytes -= static_cast<std::size_t>(written);
            memory::step_forward();
        }
    }

    void finish() {
        sync();
        put_in_place();
        sync_folder();
    }

    void put_in_place() {
        if (::rename(aside_.c_str(), path_.c_str()) != 0) fail("can't be put in place");
        complete_ = true;
    }
    void sync() const {
        if (::fsync(file_) != 0) fail("can't be written");
    }
    void sync_folder() const {
        const int directory = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (directory < 0) return;  // the rename is done; only its durability is the file system's business now
        ::fsync(directory);
        ::close(directory);
    }

  private:
    /// Whether the open file still has its name.
    bool is_there() const {
        struct stat status {};
        return ::fstat(file_, &status) == 0 && status.st_nlink > 0;
    }

    [[noreturn]] void fail(const char* what) const {
        throw FileError(fmt::format("{}: {} ({}); the previous file, if any, is unchanged", path_.string(), what,
                                    std::strerror(errno)));
    }

    std::filesystem::path path_;
    std::string aside_;
    int file_ = -1;
    bool complete_ = false;
};

std::string header_of(const std::vector<NamedArray>& tensors, const Metadata& metadata) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header[kMetadataName] = metadata;
    std::uint64_t place = 0;
    for (const NamedArray& tensor : tensors) {
        const Shape& shape = tensor.shape();
        const std::uint64_t bytes = static_cast<std::uint64_t>(shape.numel()) * size_of(tensor.array.dtype);
        header[tensor.name] = {{"dtype", safetensors_name(tensor.array.dtype)},
                               {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())},
                               {"data_offsets", {place, place + bytes}}};
        place += bytes;
    }
    std::string text;
    try {
        text = header.dump();
    } catch (const nlohmann::json::exception&) {
        throw Error("safetensors: a name or the metadata is not UTF-8");
    }
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
}

}  // namespace

namespace {

/// Sorts them.
void check(Context& context, std::vector<NamedArray>& tensors) {
    std::sort(tensors.begin(), tensors.end(), [](const NamedArray& a, const NamedArray& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(tensors.begin(), tensors.end(),
                                          [](const NamedArray& a, const NamedArray& b) { return a.name == b.name; });
    if (twice != tensors.end()) throw Error(fmt::format("safetensors: two tensors are named \"{}\"", twice->name));
    for (const NamedArray& tensor : tensors) {
        if (tensor.name == kMetadataName)
            throw Error(fmt::format("safetensors: {} can't be the name of a tensor", kMetadataName));
        check_memory(fmt::format("safetensors: {}", tensor.name), context.exec(), tensor.array);
        if (!is_sound_name(tensor.name)) throw Error("safetensors: a name is too long or contains a control character");
    }
}

/// All of the file, in order, to `write(data, bytes)`.
template <class Write>
void write_all(Context& context, const std::vector<NamedArray>& tensors, const Metadata& metadata, const Write& write) {
    const std::string header = header_of(tensors, metadata);
    unsigned char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
    write(length, 8);
    write(header.data(), header.size());
    for (const NamedArray& tensor : tensors) {
        const std::vector<char> bytes = bytes_of(context, tensor);
        write(bytes.data(), bytes.size());
    }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, Context& context, std::vector<NamedArray> tensors,
                       const Metadata& metadata) {
    check(context, tensors);
    const auto is_piece = [](const NamedArray& tensor) { return tensor.piece.has_value(); };
    if (std::ranges::any_of(tensors, is_piece) && context.group()->rank() > 0) {
        for (const NamedArray& tensor : tensors) {
            if (tensor.piece) bytes_of(context, tensor);  // for rank 0, which writes
        }
        return;
    }
    FileAside file(path);
    write_all(context, tensors, metadata, [&](const void* data, std::size_t bytes) { file.write(data, bytes); });
    file.finish();
}

void copy_safetensors(std::vector<char>& file, Context& context, std::vector<NamedArray> tensors,
                      const Metadata& metadata) {
    check(context, tensors);
    file.clear();
    write_all(context, tensors, metadata, [&](const void* data, std::size_t bytes) {
        const char* const first = static_cast<const char*>(data);
        file.insert(file.end(), first, first + bytes);
    });
}

void replace_file_at_once(const std::filesystem::path& path, std::span<const char> bytes) {
    FileAside file(path);
    file.write(bytes.data(), bytes.size());
    file.put_in_place();
    file.sync();
    file.sync_folder();
}

}  // namespace headroom::files
