#include <headroom/data/image_header.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>

#include <fmt/format.h>
#include <headroom/data/file.hpp>
#include <headroom/data/internal/codecs.hpp>

namespace headroom::data {
namespace {

/// Bytes of a file from an offset on; fewer at its end.
using ReadAt = std::function<std::string_view(std::size_t offset, std::size_t count)>;

/// An unsigned integer; 0 where the bytes end before it.
std::uint64_t number(std::string_view bytes, std::size_t offset, std::size_t size, bool little = false) {
    if (offset > bytes.size() || bytes.size() - offset < size) return 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
        value = value << 8 | static_cast<unsigned char>(bytes[offset + (little ? size - 1 - i : i)]);
    return value;
}

/// TIFF 6.0: a header, and the entries of the first directory, which have a tag, a type, a count and a value each.
int orientation_of(std::string_view exif) {
    constexpr std::uint64_t tag = 274, shorts = 3, longs = 4;
    while (exif.starts_with(std::string_view("Exif\0\0", 6))) exif.remove_prefix(6);
    const bool little = exif.starts_with("II");
    const auto read = [&](std::size_t offset, std::size_t size) { return number(exif, offset, size, little); };
    if ((!little && !exif.starts_with("MM")) || read(2, 2) != 42) return 1;
    const std::size_t directory = read(4, 4);
    for (std::size_t i = 0; i < read(directory, 2); ++i) {
        const std::size_t entry = directory + 2 + 12 * i;
        if (read(entry, 2) != tag) continue;
        const std::uint64_t type = read(entry + 2, 2), count = read(entry + 4, 4);
        if (count != 1 || (type != shorts && type != longs)) return 1;
        const std::uint64_t value = read(entry + 8, type == shorts ? 2 : 4);
        return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
    return 1;
}

/// PNG 5.3: chunks of a length, a type, data and a checksum, up to the first with pixels. `eXIf` may also be behind
/// those: `read` says how far to look.
std::optional<ImageHeader> png_header(const ReadAt& read, bool to_the_end) {
    ImageHeader header;
    for (std::size_t at = 8;;) {
        const std::string_view head = read(at, 8);
        if (head.size() < 8) break;
        const std::size_t length = number(head, 0, 4);
        const std::string kind(head.substr(4));
        if (kind == "IHDR") {
            const std::string_view data = read(at + 8, 13);
            header.width = static_cast<std::int64_t>(number(data, 0, 4));
            header.height = static_cast<std::int64_t>(number(data, 4, 4));
            const std::uint64_t bits = number(data, 8, 1), color = number(data, 9, 1);
            header.ids = bits <= 8 && (color == 0 || color == 3);  // grey, or a palette
            header.wide_grey = bits == 16 && (color == 0 || color == 4);
        }
        if (kind == "eXIf") header.orientation = orientation_of(read(at + 8, length));
        if (kind == "IEND" || (kind == "IDAT" && !to_the_end)) break;
        at += length + 12;
    }
    return header;
}

/// JPEG's markers of frames (B.1.1.3), with the frames of hierarchical files and of JPEG-LS.
constexpr std::uint64_t kFirstFrame = 0xc0, kLastFrame = 0xcf, kHuffmanTables = 0xc4, kReserved = 0xc8,
                        kArithmeticTables = 0xcc, kHierarchical = 0xde, kJpegLs = 0xf7;

bool is_frame(std::uint64_t marker) {
    const bool other = marker == kHuffmanTables || marker == kReserved || marker == kArithmeticTables;
    return (marker >= kFirstFrame && marker <= kLastFrame && !other) || marker == kHierarchical || marker == kJpegLs;
}

/// libjpeg enlarges channels by whole numbers alone. `channels`: the name, the sampling and the table of each.
bool has_whole_samplings(std::string_view channels) {
    const auto divide = [&](int shift) {
        std::uint64_t most = 1;
        bool all = true;
        const auto each = [&](const auto& visit) {
            for (std::size_t at = 1; at < channels.size(); at += 3)
                visit(std::max<std::uint64_t>(number(channels, at, 1) >> shift & 15, 1));
        };
        each([&](std::uint64_t sampling) { most = std::max(most, sampling); });
        each([&](std::uint64_t sampling) { all &= most % sampling == 0; });
        return all;
    };
    return divide(4) && divide(0);  // across, down
}

/// `ImageHeader::unusual` of a frame, whose data are bits, height, width and channels (JPEG B.2.2).
std::string unusual_frame(std::uint64_t marker, std::string_view frame) {
    const std::uint64_t bits = number(frame, 0, 1), channels = number(frame, 5, 1);
    const std::uint64_t process = marker - kFirstFrame;
    if (marker == kJpegLs) return "it is JPEG-LS";
    if (marker == kHierarchical || (process & 4) != 0) return "it is hierarchical";
    if ((process & 3) == 3) return "it is lossless";
    if ((process & 8) != 0) return "it is coded arithmetically";
    if (bits != 8) return fmt::format("it has {} bits a sample", bits);
    if (channels != 1 && channels != 3 && channels != 4) return fmt::format("it has {} channels", channels);
    if (number(frame, 1, 2) == 0) return "its height comes after its pixels";
    if (!has_whole_samplings(frame.substr(std::min<std::size_t>(frame.size(), 6))))
        return "its channels are sampled in a ratio that is not a whole number";
    return "";
}

/// JPEG B.1.1: segments of a marker, a length and data, up to the first scan.
std::optional<ImageHeader> jpeg_header(const ReadAt& read) {
    constexpr std::uint64_t scan = 0xda, app1 = 0xe1;
    ImageHeader header;
    bool has_exif = false;
    for (std::size_t at = 2;;) {
        const std::string_view head = read(at, 4);
        if (head.size() < 4 || number(head, 0, 1) != 0xff) return std::nullopt;
        const std::uint64_t marker = number(head, 1, 1);
        if (marker == 0xff) {  // filling
            ++at;
            continue;
        }
        if (marker == scan) return header;
        const std::size_t length = number(head, 2, 2);
        const std::size_t bytes = std::max<std::size_t>(length, 2) - 2;
        if (is_frame(marker)) {
            const std::string_view frame = read(at + 4, bytes);
            header.height = static_cast<std::int64_t>(number(frame, 1, 2));
            header.width = static_cast<std::int64_t>(number(frame, 3, 2));
            if (header.unusual.empty()) header.unusual = unusual_frame(marker, frame);
        }
        if (marker == app1 && !has_exif) {
            const std::string_view data = read(at + 4, bytes);
            has_exif = data.starts_with(std::string_view("Exif\0\0", 6));
            if (has_exif) header.orientation = orientation_of(data);
        }
        at += 2 + length;
    }
}

std::optional<ImageHeader> header_of(const ReadAt& read, bool to_the_end) {
    const std::string first(read(0, 4));
    const auto header = is_png(first)    ? png_header(read, to_the_end)
                        : is_jpeg(first) ? jpeg_header(read)
                                         : std::nullopt;
    if (!header || header->height < 1 || header->width < 1) return std::nullopt;
    return header;
}

bool ends_as_an_image(const FileParts& file) {
    const std::string last = file.read(file.size() - std::min<std::size_t>(file.size(), 12), 12);
    return is_png(file.read(0, 4)) ? last == std::string_view("\0\0\0\0IEND\xae\x42\x60\x82", 12)
                                   : last.ends_with("\xff\xd9");
}

/// Of a file that is in memory.
ReadAt in(std::string_view bytes) {
    return
        [bytes](std::size_t offset, std::size_t count) { return bytes.substr(std::min(offset, bytes.size()), count); };
}

}  // namespace

std::optional<ImageHeader> image_header(std::string_view bytes) { return header_of(in(bytes), true); }

std::string unusual_jpeg(std::string_view bytes) { return jpeg_header(in(bytes)).value_or(ImageHeader()).unusual; }

std::optional<ImageHeader> whole_image_header(const std::filesystem::path& path) {
    try {
        const FileParts file(path);
        std::size_t begin = 0;
        std::string buffer;
        const auto read = [&](std::size_t offset, std::size_t count) {
            const bool inside =
                offset >= begin && offset - begin <= buffer.size() && buffer.size() - (offset - begin) >= count;
            if (!inside) {
                constexpr std::size_t ahead = 4096;
                begin = offset;
                buffer = file.read(offset, std::max(count, ahead));
            }
            return std::string_view(buffer).substr(offset - begin, count);
        };
        const auto header = header_of(read, false);
        if (!header || !header->unusual.empty() ||
            static_cast<std::uint64_t>(header->width) > kMaxPixels / static_cast<std::uint64_t>(header->height))
            return std::nullopt;
        return ends_as_an_image(file) ? header : std::nullopt;
    } catch (const FileError&) {
        return std::nullopt;
    }
}

}  // namespace headroom::data
