#include <headroom/data/file.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <headroom/memory/error.hpp>
#include <headroom/memory/progress.hpp>

namespace headroom::data {
namespace {

class Descriptor {
  public:
    explicit Descriptor(const std::filesystem::path& path) : value_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    int get() const { return value_; }

  private:
    int value_;
};

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
    if (path.empty()) throw FileError("the path of the file is empty; name a file");
    if (error == ENOENT) throw FileError(fmt::format("{}: no such file; check the path", path.native()));
    throw FileError(fmt::format("{}: can't be read: {}", path.native(), std::strerror(error)));
}

// Before open(), which would wait for a pipe's writer or wake a device.
struct stat checked_stat(const std::filesystem::path& path) {
    if (path.native().find('\0') != std::string::npos)  // the system would open what stands before it
        throw FileError(fmt::format("{}: a path can't contain a zero byte; check the path", path.native()));
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) fail(path, errno);
    if (S_ISDIR(info.st_mode)) throw FileError(fmt::format("{}: is a folder; name a file in it", path.native()));
    if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))
        throw FileError(fmt::format("{}: is a device or a socket; name a file", path.native()));
    return info;
}

[[noreturn]] void fail_empty(const std::filesystem::path& path) {
    throw FileError(fmt::format("{}: is empty; name a file with contents", path.native()));
}

/// Of a file that any part can be read of.
std::size_t regular_size(const std::filesystem::path& path) {
    const auto info = checked_stat(path);
    if (!S_ISREG(info.st_mode))
        throw FileError(fmt::format("{}: is a pipe, which is read only once; name a file", path.native()));
    if (info.st_size == 0) fail_empty(path);
    return static_cast<std::size_t>(info.st_size);
}

std::size_t read_some(int descriptor, char* to, std::size_t count, const std::filesystem::path& path) {
    for (;;) {
        const ssize_t got = ::read(descriptor, to, std::min(count, memory::kFilePiece));
        memory::step_forward();
        if (got >= 0) return static_cast<std::size_t>(got);
        if (errno != EINTR) fail(path, errno);
    }
}

std::string read_to_end(int descriptor, std::size_t expected, const std::filesystem::path& path) {
    constexpr std::size_t step = std::size_t{1} << 20;
    std::string text(expected + 1, '\0');  // one more, so that the end is seen without growing
    std::size_t filled = 0;
    for (;;) {
        if (filled == text.size()) text.resize(text.size() + std::max(step, text.size() / 2));
        const std::size_t got = read_some(descriptor, text.data() + filled, text.size() - filled, path);
        if (got == 0) break;
        filled += got;
    }
    text.resize(filled);
    return text;
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
    const auto info = checked_stat(path);
    const Descriptor file(path);
    if (file.get() < 0) fail(path, errno);
    std::string text;
    try {
        text = read_to_end(file.get(), static_cast<std::size_t>(info.st_size), path);
    } catch (const std::bad_alloc&) {
        throw FileError(
            fmt::format("{}: its {} bytes don't fit into memory; use a smaller file, or a token file, "
                        "which is mapped",
                        path.native(), info.st_size));
    } catch (const std::length_error&) {
        throw FileError(fmt::format("{}: too large to be read", path.native()));
    }
    if (text.empty()) fail_empty(path);
    return text;
}

std::size_t check_file(const std::filesystem::path& path) {
    const auto info = checked_stat(path);
    if (!S_ISREG(info.st_mode)) return 0;
    if (info.st_size == 0) fail_empty(path);
    const Descriptor file(path);
    if (file.get() < 0) fail(path, errno);
    return static_cast<std::size_t>(info.st_size);
}

MappedFile::MappedFile(const std::filesystem::path& path) {
    const std::size_t size = regular_size(path);
    const Descriptor file(path);
    if (file.get() < 0) fail(path, errno);
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (memory == MAP_FAILED) fail(path, errno);
    bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
}

MappedFile::~MappedFile() {
    if (bytes_.data()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

FileParts::FileParts(const std::filesystem::path& path) : path_(path), size_(regular_size(path)) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail(path, errno);
}

FileParts::~FileParts() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

std::string FileParts::read(std::size_t offset, std::size_t count) const {
    std::string bytes(offset < size_ ? std::min(count, size_ - offset) : 0, '\0');
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const ssize_t got =
            ::pread(descriptor_, bytes.data() + filled, bytes.size() - filled, static_cast<off_t>(offset + filled));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail(path_, errno);
        if (got == 0) break;
        filled += static_cast<std::size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
}

}  // namespace headroom::data
