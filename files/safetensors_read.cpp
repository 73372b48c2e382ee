#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <headroom/core/transfer.hpp>
#include <headroom/files/internal/foreign_file.hpp>
#include <headroom/files/internal/safetensors_header.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/files/safetensors_dtypes.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/progress.hpp>

namespace headroom::files {

/// A file that stays the same one when another takes its name.
class SafetensorsFile::OpenFile {
  public:
    explicit OpenFile(const std::filesystem::path& path) : path_(path) {
        const auto fail = [&](const std::string& what) { throw FileError(fmt::format("{}: {}", path.string(), what)); };
        if (path.native().find('\0') != std::string::npos) fail("a path must not contain a NUL");
        file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // else a pipe waits for its writer
        const int error = errno;
        struct stat status {};
        if ((file_ < 0 ? ::stat(path.c_str(), &status) : ::fstat(file_, &status)) == 0) {
            const bool folder = S_ISDIR(status.st_mode), regular = S_ISREG(status.st_mode);
            if (!regular && file_ >= 0) ::close(std::exchange(file_, -1));
            if (folder) fail("is a folder; name a file in it");
            if (!regular) fail("is a device, a pipe or a socket; name a file");
        }
        if (file_ < 0) fail(fmt::format("can't be opened ({})", std::strerror(error)));
        size_ = static_cast<std::uint64_t>(status.st_size);
    }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    ~OpenFile() { ::close(file_); }

    const std::filesystem::path& path() const { return path_; }
    std::uint64_t size() const { return size_; }
    /// All of `bytes`, from this place on; false if they can't be read.
    bool read(std::uint64_t place, std::span<char> bytes) const {
        while (!bytes.empty()) {
            const ssize_t count =
                ::pread(file_, bytes.data(), std::min(bytes.size(), memory::kFilePiece), static_cast<off_t>(place));
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) return false;
            place += static_cast<std::uint64_t>(count);
            bytes = bytes.subspan(static_cast<std::size_t>(count));
            memory::step_forward();
        }
        return true;
    }

  private:
    std::filesystem::path path_;
    int file_ = -1;
    std::uint64_t size_ = 0;
};

namespace {

using OpenFile = SafetensorsFile::OpenFile;

/// From a place on, as many bytes as there are, up to `count`.
std::string read_text(const OpenFile& file, std::uint64_t place, std::uint64_t count) {
    std::string text(std::min(count, file.size() - std::min(place, file.size())), '\0');
    if (!file.read(place, text)) throw FileError(fmt::format("{}: can't be read", file.path().string()));
    return text;
}

/// What the first eight bytes say, which is the length of the header if that fits into the file.
std::uint64_t header_length(const OpenFile& file) {
    if (file.size() < 8)
        refuse_safetensors(file.path(), fmt::format("it has {} bytes, at least 8 are needed", file.size()));
    const std::string raw = read_text(file, 0, 8);
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(raw[static_cast<std::size_t>(i)]);
    return length;
}

bool fits(const OpenFile& file, std::uint64_t length) { return length <= kLargestHeader && length <= file.size() - 8; }

/// JSON in place of a header's length.
bool is_index(const OpenFile& file) {
    if (file.size() < 8 || file.size() > kLargestHeader || header_length(file) <= kLargestHeader) return false;
    const std::string beginning = read_text(file, 0, 512);
    const std::size_t first = beginning.find_first_not_of(" \t\r\n");
    return first != std::string::npos && beginning[first] == '{';
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
    auto file = std::make_shared<const OpenFile>(path);
    if (is_index(*file))
        add_parts(parse_index(path, read_text(*file, 0, file->size())));
    else
        add_file(std::move(file));
    sort_entries();
}

void SafetensorsFile::add_file(std::shared_ptr<const OpenFile> file) {
    const std::uint64_t length = header_length(*file);
    if (!fits(*file, length)) {
        const std::string kind = foreign_kind(read_text(*file, 0, 512));
        if (!kind.empty()) throw FileError(fmt::format("{}: {}", file->path().string(), kind));
        refuse_safetensors(file->path(), fmt::format("the header claims {} bytes, but the file has {} (truncated?)",
                                                     length, file->size() - 8));
    }
    const std::uint64_t begin = 8 + length;
    SafetensorsHeader header = parse_header(file->path(), read_text(*file, 8, length), file->size() - begin);
    for (SafetensorsEntry& entry : header.entries) {
        entry.begin += begin;
        entry.end += begin;
        entry.part = files_.size();
        entries_.push_back(std::move(entry));
    }
    metadata_.merge(header.metadata);
    files_.push_back(std::move(file));
}

void SafetensorsFile::add_parts(const std::map<std::string, std::string>& part_of) {
    std::map<std::string, std::size_t> numbers;
    for (const auto& [name, part] : part_of) {
        if (!numbers.emplace(part, files_.size()).second) continue;
        const std::filesystem::path path = path_.parent_path() / part;
        std::error_code ignored;
        if (!std::filesystem::exists(path, ignored))
            throw FileError(
                fmt::format("{}: its part {} is missing; put it in the folder of the index", path_.string(), part));
        add_file(std::make_shared<const OpenFile>(path));
    }
    std::map<std::string_view, std::size_t> found;
    for (const SafetensorsEntry& entry : entries_) {
        if (!found.emplace(entry.name, entry.part).second)
            throw FileError(fmt::format("{}: {} is in two of its parts", path_.string(), entry.name));
    }
    for (const auto& [name, part] : part_of) {
        const auto place = found.find(name);
        if (place == found.end() || place->second != numbers.at(part))
            throw FileError(fmt::format("{}: {} is not in {}, where the index says it is", path_.string(), name, part));
    }
}

void SafetensorsFile::sort_entries() {
    std::ranges::sort(entries_, {}, &SafetensorsEntry::name);
    if (entries_.empty()) return;
    const std::string &first = entries_.front().name, &last = entries_.back().name;
    const auto end = std::ranges::mismatch(first, last).in1;
    const std::string common(first.begin(), end);
    prefix_ = common.substr(0, common.rfind('.') + 1);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
    for (std::size_t cut = 0;; cut = prefix_.find('.', cut) + 1) {
        const std::string whole = fmt::format("{}{}", std::string_view(prefix_).substr(0, cut), name);
        const auto found = std::ranges::lower_bound(entries_, whole, {}, &SafetensorsEntry::name);
        if (found != entries_.end() && found->name == whole) return &*found;
        if (cut == prefix_.size()) return nullptr;
    }
}

void SafetensorsFile::read(const SafetensorsEntry& entry, std::uint64_t offset, std::span<char> bytes) const {
    const OpenFile& file = *files_.at(entry.part);
    if (!file.read(entry.begin + offset, bytes))
        throw FileError(fmt::format("{}: {} can't be read; has the file changed?", file.path().string(), entry.name));
}

void SafetensorsFile::check_readable(const SafetensorsEntry& entry) const {
    if (entry.unreadable.empty()) return;
    throw FileError(fmt::format("{}: {} is {}, which can't be read", path_.string(), entry.name, entry.unreadable));
}

std::int64_t SafetensorsFile::count(const SafetensorsEntry& entry) const {
    const auto fail = [&] { throw FileError(fmt::format("{}: {} is not a whole number", path_.string(), entry.name)); };
    char bytes[8] = {};
    const std::uint64_t size = entry.end - entry.begin;
    const std::string type = entry.unreadable.empty() ? std::string(safetensors_name(entry.dtype)) : entry.unreadable;
    if (size == 0 || size > sizeof bytes || safetensors_bits(type) != 8 * size) fail();
    read(entry, 0, std::span(bytes).first(size));
    if (const bool is_signed = type.starts_with("I"); is_signed || type.starts_with("U") || type == "BOOL") {
        if (is_signed && bytes[size - 1] < 0) std::fill(bytes + size, std::end(bytes), '\xff');
        std::int64_t number = 0;
        std::memcpy(&number, bytes, sizeof number);
        if (!is_signed && number < 0) fail();
        return number;
    }
    if (!entry.unreadable.empty()) fail();
    double number = 0;
    kernels::CpuStream here;
    kernels::copy(here, contiguous_view(bytes, entry.dtype, {}), contiguous_view(&number, Dtype::f64, {}));
    if (!(std::abs(number) < 0x1p62)) fail();
    return static_cast<std::int64_t>(number);
}

bool SafetensorsFile::equal(const SafetensorsEntry& a, const SafetensorsEntry& b) const {
    if (a.dtype != b.dtype || a.shape != b.shape || a.unreadable != b.unreadable) return false;
    constexpr std::uint64_t kPart = std::uint64_t{1} << 20;
    std::vector<char> of_a(kPart), of_b(kPart);
    if (a.end - a.begin != b.end - b.begin) return false;
    for (std::uint64_t offset = 0; offset < a.end - a.begin; offset += kPart) {
        const std::size_t count = std::min(kPart, a.end - a.begin - offset);
        read(a, offset, std::span(of_a).first(count));
        read(b, offset, std::span(of_b).first(count));
        if (!std::equal(of_a.begin(), of_a.begin() + static_cast<std::ptrdiff_t>(count), of_b.begin())) return false;
    }
    return true;
}

void SafetensorsFile::check_shape(const SafetensorsEntry& entry, const Shape& wanted) const {
    if (entry.shape == wanted) return;
    throw ShapeError(fmt::format("{}: {} has shape {}, expected {}", path_.string(), entry.name,
                                 entry.shape.to_string(), wanted.to_string()));
}

void SafetensorsFile::fill(const SafetensorsEntry& entry, Context& context, const NamedArray& target) const {
    if (!target.piece) return copy_to(entry, context, target.array);
    check_readable(entry);
    const Geometry& whole = target.piece->whole;
    check_shape(entry, whole.shape);
    if (context.dry()) return;
    const std::uint64_t size = size_of(entry.dtype), first = static_cast<std::uint64_t>(target.piece->first) * size;
    const std::uint64_t count = static_cast<std::uint64_t>(target.array.numel()) * size;
    std::vector<char> bytes(count);
    if (is_contiguous(whole.shape, whole.strides)) {
        read(entry, first, bytes);
    } else {  // in the file elements lie in another order
        std::vector<char> in_file(entry.end - entry.begin), in_memory(in_file.size());
        read(entry, 0, in_file);
        kernels::CpuStream here;
        kernels::copy(here, contiguous_view(in_file.data(), entry.dtype, entry.shape),
                      View{in_memory.data(), entry.dtype, whole.shape, whole.strides});
        std::copy_n(in_memory.begin() + static_cast<std::ptrdiff_t>(first), count, bytes.begin());
    }
    upload(context.exec(), contiguous_view(bytes.data(), entry.dtype, target.array.shape()), target.array);
}

void SafetensorsFile::copy_to(const SafetensorsEntry& entry, Context& context, const Array& target) const {
    check_readable(entry);
    check_shape(entry, target.shape());
    std::vector<char> bytes(context.dry() ? 0 : entry.end - entry.begin);
    if (!context.dry()) read(entry, 0, bytes);
    // A bool of another value than 0 and 1 is undefined behaviour wherever it is read.
    if (entry.dtype == Dtype::boolean &&
        std::any_of(bytes.begin(), bytes.end(), [](char c) { return c != 0 && c != 1; })) {
        refuse_safetensors(path_, fmt::format("{}: a bool must be 0 or 1", entry.name));
    }
    upload(context.exec(), contiguous_view(bytes.data(), entry.dtype, entry.shape), target);
}

std::string part_advice(const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    if (name.find("-of-0") == std::string::npos) return "";
    return "; it is one of several parts: use their index, which ends in .safetensors.index.json";
}

}  // namespace headroom::files
