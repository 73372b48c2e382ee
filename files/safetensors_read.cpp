#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <headroom/core/transfer.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/files/safetensors_dtypes.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/progress.hpp>

namespace headroom::files {

/// A file that stays the same one when another takes its name.
class SafetensorsFile::OpenFile {
  public:
    explicit OpenFile(const std::filesystem::path& path) {
        const auto fail = [&](const std::string& what) { throw FileError(fmt::format("{}: {}", path.string(), what)); };
        if (path.native().find('\0') != std::string::npos) fail("a path can't hold a NUL");
        file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // else a pipe waits for its writer
        const int error = errno;
        struct stat status {};
        if ((file_ < 0 ? ::stat(path.c_str(), &status) : ::fstat(file_, &status)) == 0) {
            const bool folder = S_ISDIR(status.st_mode), regular = S_ISREG(status.st_mode);
            if (!regular && file_ >= 0) ::close(std::exchange(file_, -1));
            if (folder) fail("is a folder");
            if (!regular) fail("is a device, a pipe or a socket; name a file");
        }
        if (file_ < 0) fail(fmt::format("can't be opened ({})", std::strerror(error)));
        size_ = static_cast<std::uint64_t>(status.st_size);
    }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    ~OpenFile() { ::close(file_); }

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
    int file_ = -1;
    std::uint64_t size_ = 0;
};

namespace {

using OpenFile = SafetensorsFile::OpenFile;
using Json = nlohmann::json;

/// Far above any real header; keeps a lying length from allocating.
constexpr std::uint64_t kLargestHeader = 100'000'000;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
    throw FileError(fmt::format("{}: not a sound safetensors file: {}", path.string(), what));
}

/// nlohmann's parser lets the last of two equal keys win; a file that has two is damaged.
Json parse_header(const std::filesystem::path& path, const std::string& text) {
    std::vector<std::set<std::string>> keys;
    const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
        if (event == Json::parse_event_t::object_start) keys.emplace_back();
        if (event == Json::parse_event_t::object_end) keys.pop_back();
        if (event != Json::parse_event_t::key) return true;
        const auto& key = parsed.get_ref<const std::string&>();
        if (!is_sound_name(key)) refuse(path, "a name in the header is too long or holds control characters");
        if (!keys.back().insert(key).second) refuse(path, fmt::format("\"{}\" stands in the header twice", key));
        return true;
    };
    Json header;
    try {
        header = Json::parse(text, watch);
    } catch (const Json::parse_error& error) {
        refuse(path, fmt::format("the header is not JSON (at its byte {})", error.byte));
    } catch (const Json::exception&) {
        refuse(path, "the header is not JSON that can be used (a number is too large)");
    }
    if (!header.is_object()) refuse(path, "the header is not a JSON object");
    return header;
}

std::uint64_t number(const std::filesystem::path& path, const std::string& name, const Json& value, const char* what) {
    if (!value.is_number_unsigned()) refuse(path, fmt::format("{}: {} is not a whole number", name, what));
    return value.get<std::uint64_t>();
}

Shape read_shape(const std::filesystem::path& path, const std::string& name, const Json& sizes,
                 std::uint64_t item_bytes, std::uint64_t& bytes) {
    if (!sizes.is_array() || sizes.size() > kMaxRank) {
        refuse(path, fmt::format("{}: the shape must be a list of at most {} sizes", name, kMaxRank));
    }
    Shape shape;
    bytes = item_bytes;
    bool empty = false;
    for (const Json& value : sizes) {
        const std::uint64_t size = number(path, name, value, "a size");
        empty |= size == 0;
        if (size > 0 && bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / size) {
            refuse(path, fmt::format("{}: the shape has more elements than can be", name));
        }
        if (size > 0) bytes *= size;
        shape.push_back(static_cast<std::int64_t>(size));
    }
    if (empty) bytes = 0;
    return shape;
}

Dtype read_dtype(const std::filesystem::path& path, const std::string& name, const Json& value) {
    if (!value.is_string()) refuse(path, fmt::format("{}: the dtype is not a string", name));
    const auto& text = value.get_ref<const std::string&>();
    const std::optional<Dtype> dtype = safetensors_dtype(text);
    const bool plain = text.size() <= 16 && is_sound_name(text);
    if (!dtype) refuse(path, fmt::format("{}: the dtype {} is not supported", name, plain ? text : "(not a name)"));
    return *dtype;
}

SafetensorsEntry read_entry(const std::filesystem::path& path, const std::string& name, const Json& json) {
    if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") || !json.contains("data_offsets")) {
        refuse(path, fmt::format("{}: dtype, shape or data_offsets is missing", name));
    }
    const Dtype dtype = read_dtype(path, name, json["dtype"]);
    SafetensorsEntry entry{name, dtype, {}, 0, 0};
    std::uint64_t bytes = 0;
    entry.shape = read_shape(path, name, json["shape"], size_of(dtype), bytes);
    const Json& offsets = json["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2)
        refuse(path, fmt::format("{}: data_offsets must be two numbers", name));
    entry.begin = number(path, name, offsets[0], "an offset");
    entry.end = number(path, name, offsets[1], "an offset");
    if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
        refuse(path, fmt::format("{}: {} {} takes {} bytes, the offsets {} to {} do not", name, kernels::name(dtype),
                                 entry.shape.to_string(), bytes, entry.begin, entry.end));
    }
    return entry;
}

/// Tensors must fill the data without overlap or gap.
void check_layout(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries, std::uint64_t data_bytes) {
    std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t place = 0;
    for (const SafetensorsEntry& entry : entries) {
        if (entry.end > data_bytes) {
            refuse(path, fmt::format("{}: ends at byte {} of {} (truncated?)", entry.name, entry.end, data_bytes));
        }
        if (entry.begin != place) {
            refuse(path, fmt::format("{}: begins at byte {}, not {} (tensors must neither overlap nor leave gaps)",
                                     entry.name, entry.begin, place));
        }
        place = entry.end;
    }
    if (place != data_bytes) refuse(path, fmt::format("{} bytes follow the last tensor", data_bytes - place));
}

std::string read_header_text(const std::filesystem::path& path, const OpenFile& file, std::uint64_t& data_begin,
                             std::uint64_t& data_bytes) {
    const std::uint64_t size = file.size();
    if (size < 8) refuse(path, fmt::format("it has {} bytes, 8 are the least", size));
    unsigned char raw[8];
    bool read = file.read(0, {reinterpret_cast<char*>(raw), 8});
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | raw[i];
    if (read && (length > kLargestHeader || length > size - 8)) {
        if (std::string_view(reinterpret_cast<const char*>(raw), 4) == "PK\3\4")
            throw FileError(
                fmt::format("{}: a file of torch.save; scripts/convert_pth makes safetensors of it", path.string()));
        refuse(path, fmt::format("the header claims {} bytes, the file has {} (truncated?)", length, size - 8));
    }
    std::string text(read ? length : 0, '\0');
    read = read && file.read(8, text);
    if (!read) throw FileError(fmt::format("{}: can't be read", path.string()));
    data_begin = 8 + length;
    data_bytes = size - data_begin;
    return text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(std::make_shared<const OpenFile>(path)) {
    std::uint64_t data_begin = 0;
    std::uint64_t data_bytes = 0;
    const Json header = parse_header(path, read_header_text(path, *file_, data_begin, data_bytes));
    for (const auto& [name, json] : header.items()) {
        if (name != "__metadata__") {
            entries_.push_back(read_entry(path, name, json));
            continue;
        }
        if (!json.is_object()) refuse(path, "the metadata is not an object");
        for (const auto& [key, value] : json.items()) {
            if (!value.is_string()) refuse(path, fmt::format("the metadata \"{}\" is not a string", key));
            metadata_[key] = value.get<std::string>();
        }
    }
    check_layout(path, entries_, data_bytes);
    for (SafetensorsEntry& entry : entries_) {
        entry.begin += data_begin;
        entry.end += data_begin;
    }
    std::sort(entries_.begin(), entries_.end(),
              [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return a.name < b.name; });
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
    const auto found =
        std::lower_bound(entries_.begin(), entries_.end(), name,
                         [](const SafetensorsEntry& entry, std::string_view n) { return entry.name < n; });
    return found != entries_.end() && found->name == name ? &*found : nullptr;
}

void SafetensorsFile::read(const SafetensorsEntry& entry, std::uint64_t offset, std::span<char> bytes) const {
    if (!file_->read(entry.begin + offset, bytes))
        throw FileError(fmt::format("{}: {} can't be read; has the file changed?", path_.string(), entry.name));
}

bool SafetensorsFile::equal(const SafetensorsEntry& a, const SafetensorsEntry& b) const {
    if (a.dtype != b.dtype || a.shape != b.shape) return false;
    constexpr std::uint64_t kPart = std::uint64_t{1} << 20;
    std::vector<char> of_a(kPart), of_b(kPart);
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
    throw ShapeError(fmt::format("{}: {} has shape {}, {} is wanted", path_.string(), entry.name,
                                 entry.shape.to_string(), wanted.to_string()));
}

void SafetensorsFile::fill(const SafetensorsEntry& entry, Context& context, const NamedArray& target) const {
    if (!target.piece) return copy_to(entry, context, target.array);
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
    check_shape(entry, target.shape());
    std::vector<char> bytes(context.dry() ? 0 : entry.end - entry.begin);
    if (!context.dry()) read(entry, 0, bytes);
    // A bool of another value than 0 and 1 is undefined behaviour wherever it is read.
    if (entry.dtype == Dtype::boolean &&
        std::any_of(bytes.begin(), bytes.end(), [](char c) { return c != 0 && c != 1; })) {
        refuse(path_, fmt::format("{}: a bool is neither 0 nor 1", entry.name));
    }
    upload(context.exec(), contiguous_view(bytes.data(), entry.dtype, entry.shape), target);
}

}  // namespace headroom::files
