#include <headroom/data/idx.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <zlib.h>

#include <fmt/format.h>
#include <headroom/data/file.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr int kMaxRank = 6;
constexpr std::uint8_t kUnsignedByte = 0x08;

// A file whose contents zlib unpacks if they are gzip, and passes on if not.
class Reader {
  public:
    explicit Reader(const std::filesystem::path& path) : path_(path.native()) {
        check_file(path);
        file_.reset(gzopen(path.c_str(), "rb"));
        if (!file_) throw FileError(fmt::format("{}: can't be read: {}", path_, std::strerror(errno)));
    }

    // Fills `to` as far as the contents reach; returns how many bytes.
    std::size_t read(std::uint8_t* to, std::size_t count) {
        std::size_t filled = 0;
        while (filled < count) {
            const auto step = static_cast<unsigned>(std::min(count - filled, std::size_t{1} << 20));
            const int got = gzread(file_.get(), to + filled, step);
            if (got < 0) fail_damaged();
            if (got == 0) break;
            filled += static_cast<std::size_t>(got);
        }
        // An unfinished gzip stream gives what there is, and says so only here.
        if (filled < count) check_end();
        return filled;
    }

    [[noreturn]] void fail(const std::string& what) const { throw FileError(fmt::format("{}: {}", path_, what)); }

  private:
    struct Close {
        void operator()(gzFile_s* file) const { gzclose_r(file); }
    };

    void check_end() {
        int code = Z_OK;
        gzerror(file_.get(), &code);
        if (code != Z_OK && code != Z_STREAM_END) fail_damaged();
    }

    [[noreturn]] void fail_damaged() {
        int code = Z_OK;
        const int error = errno;
        std::string_view reason = gzerror(file_.get(), &code);
        if (code == Z_ERRNO) fail(fmt::format("can't be read: {}", std::strerror(error)));
        if (code == Z_BUF_ERROR) reason = "it ends early";
        const std::string prefix = path_ + ": ";  // zlib names the file, too
        if (reason.starts_with(prefix)) reason.remove_prefix(prefix.size());
        fail(fmt::format("damaged gzip near byte {} ({}); get the file again", gzoffset(file_.get()), reason));
    }

    std::string path_;
    std::unique_ptr<gzFile_s, Close> file_;
};

std::uint32_t big_endian(const std::uint8_t* bytes) {
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 |
           std::uint32_t{bytes[3]};
}

std::vector<std::int64_t> read_shape(Reader& file) {
    std::array<std::uint8_t, 4> magic{};
    if (file.read(magic.data(), 4) < 4) file.fail("ends within the 4 bytes that begin an IDX file");
    const auto [zero0, zero1, type, rank] = magic;
    if (zero0 != 0 || zero1 != 0)
        file.fail(fmt::format("is not an IDX file: it begins with 0x{:08x} instead of two zero bytes",
                              big_endian(magic.data())));
    if (type != kUnsignedByte)
        file.fail(
            fmt::format("type 0x{:02x} at byte 2 is not supported; use an IDX file of unsigned bytes (0x08)", type));
    if (rank < 1 || rank > kMaxRank) file.fail(fmt::format("rank {} at byte 3 is outside of 1 to {}", rank, kMaxRank));
    std::vector<std::int64_t> shape;
    for (int axis = 0; axis < rank; ++axis) {
        std::array<std::uint8_t, 4> bytes{};
        if (file.read(bytes.data(), 4) < 4)
            file.fail(fmt::format("ends within dimension {} of {}, at byte {}", axis, rank, 4 + 4 * axis));
        shape.push_back(big_endian(bytes.data()));
    }
    return shape;
}

std::size_t checked_size(const Reader& file, const std::vector<std::int64_t>& shape) {
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) {
        if (extent == 0) file.fail(fmt::format("holds no values: its shape is [{}]", fmt::join(shape, ", ")));
        if (__builtin_mul_overflow(size, extent, &size))
            file.fail(fmt::format("claims the shape [{}], whose size overflows 64 bits", fmt::join(shape, ", ")));
    }
    return static_cast<std::size_t>(size);
}

void check_rank(const std::filesystem::path& path, const IdxArray& array, std::size_t rank, const char* what) {
    if (array.shape.size() != rank)
        throw FileError(fmt::format("{}: rank {} (shape [{}]), but the rank of {} is {}", path.native(),
                                    array.shape.size(), fmt::join(array.shape, ", "), what, rank));
}

struct Part {
    const char* what;
    int rank;

    std::string name(std::string_view prefix, char separator = '-') const {
        return fmt::format("{}-{}{}idx{}-ubyte", prefix, what, separator, rank);
    }
};
constexpr Part kImages{"images", 3}, kLabels{"labels", 1};

/// Empty if it is not there. Some unpackers write a dot before "idx".
std::filesystem::path find_file(const std::filesystem::path& folder, std::string_view prefix, Part part) {
    for (const char separator : {'-', '.'})
        for (const char* ending : {".gz", ""}) {
            auto path = folder / (part.name(prefix, separator) + ending);
            std::error_code ignored;
            if (std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored)) return path;
        }
    return {};
}

std::filesystem::path expect_file(const std::filesystem::path& folder, std::string_view prefix, Part part) {
    const auto path = find_file(folder, prefix, part);
    if (!path.empty()) return path;
    const std::string name = part.name(prefix);
    throw FileError(
        fmt::format("{}: has no file {} or {}.gz; name the folder that holds it", folder.native(), name, name));
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path) {
    Reader file(path);
    IdxArray array{read_shape(file), {}};
    const std::size_t claimed = checked_size(file, array.shape);
    // The header may lie: memory is taken as the values come.
    for (std::size_t filled = 0; filled < claimed;) {
        array.values.resize(std::min(claimed, std::max(std::size_t{1} << 20, 2 * filled)));
        const std::size_t wanted = array.values.size() - filled;
        const std::size_t got = file.read(array.values.data() + filled, wanted);
        filled += got;
        if (got < wanted)
            file.fail(fmt::format("ends after {} of the {} values of its shape [{}]; get the file again", filled,
                                  claimed, fmt::join(array.shape, ", ")));
    }
    // Reading on also makes zlib compare the checksum.
    std::uint8_t more = 0;
    if (file.read(&more, 1) != 0)
        file.fail(fmt::format("goes on after the {} values of its shape [{}]", claimed, fmt::join(array.shape, ", ")));
    return array;
}

IdxImages read_idx_images(const std::filesystem::path& path) {
    IdxArray array = read_idx(path);
    check_rank(path, array, 3, "images");
    return {array.shape[0], array.shape[1], array.shape[2], std::move(array.values)};
}

std::vector<std::uint8_t> read_idx_labels(const std::filesystem::path& path, std::int64_t classes) {
    IdxArray array = read_idx(path);
    check_rank(path, array, 1, "labels");
    const auto bad =
        std::find_if(array.values.begin(), array.values.end(), [&](std::uint8_t v) { return v >= classes; });
    if (bad != array.values.end())
        throw FileError(fmt::format("{}: label {} of sample {} is not below the number of classes, {}", path.native(),
                                    *bad, bad - array.values.begin(), classes));
    return std::move(array.values);
}

bool has_labelled_images(const std::filesystem::path& folder, std::string_view prefix) {
    return !find_file(folder, prefix, kImages).empty() || !find_file(folder, prefix, kLabels).empty();
}

LabelledImages read_labelled_images(const std::filesystem::path& folder, std::string_view prefix,
                                    std::int64_t classes) {
    const auto images_path = expect_file(folder, prefix, kImages);
    const auto labels_path = expect_file(folder, prefix, kLabels);
    LabelledImages both{read_idx_images(images_path), read_idx_labels(labels_path, classes)};
    if (both.images.count != static_cast<std::int64_t>(both.labels.size()))
        throw FileError(fmt::format("{}: {} images, but {} labels in {}", images_path.native(), both.images.count,
                                    both.labels.size(), labels_path.native()));
    return both;
}

}  // namespace headroom::data
