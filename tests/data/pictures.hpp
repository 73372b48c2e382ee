#pragma once
// What the tests of images share: the files of tests/reference/images, and a picture with all bytes in it.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <headroom/data/image.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::test {

inline std::filesystem::path reference(const std::string& name) {
    return test::source_path("tests/reference/images/" + name);
}

inline std::string contents_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("no file " + path.native());
    return {std::istreambuf_iterator<char>(file), {}};
}

/// A binary PPM or PGM file of 8 bits.
inline data::Image read_ppm(const std::string& name) {
    std::istringstream file(contents_of(reference(name)));
    std::string magic;
    int64_t width = 0, height = 0, largest = 0;
    file >> magic >> width >> height >> largest;
    file.ignore();
    data::Image image(height, width, magic == "P6" ? 3 : 1);
    file.read(reinterpret_cast<char*>(image.pixels.data()), static_cast<std::streamsize>(image.pixels.size()));
    if (!file) throw std::runtime_error(name + " ends early");
    return image;
}

/// A file of f32.
inline std::vector<float> read_floats(const std::string& name) {
    const std::string bytes = contents_of(reference(name));
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

/// How EXIF data writes a number.
struct ExifWay {
    bool little = false;  // byte order
    int bytes = 2;        // SHORT, or 4: LONG
};

/// A PNG with an eXIf chunk that says so, before its last chunk.
inline std::string with_exif(std::string png, int orientation, ExifWay way = {}) {
    const auto number = [&](int value, int bytes) {
        std::string written;
        for (int i = 0; i < bytes; ++i)
            written += static_cast<char>(value >> 8 * (way.little ? i : bytes - 1 - i) & 0xff);
        return written;
    };
    const int type = way.bytes == 2 ? 3 : 4;
    std::string value = number(orientation, way.bytes);
    value.resize(4);
    const std::string entry = number(0x112, 2) + number(type, 2) + number(1, 4) + value;
    const std::string chunk =
        (way.little ? "eXIfII" : "eXIfMM") + number(42, 2) + number(8, 4) + number(1, 2) + entry + number(0, 4);
    uint32_t sum = 0xffffffff;  // PNG's CRC
    for (const char byte : chunk) {
        sum ^= static_cast<unsigned char>(byte);
        for (int bit = 0; bit < 8; ++bit) sum = sum & 1 ? sum >> 1 ^ 0xedb88320 : sum >> 1;
    }
    const auto big_endian = [](uint32_t number) {
        std::string bytes;
        for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift & 0xff);
        return bytes;
    };
    const std::size_t data = chunk.size() - 4;
    return png.insert(png.size() - 12, big_endian(static_cast<uint32_t>(data)) + chunk + big_endian(~sum));
}

/// Every pixel says where it is.
inline data::Image numbered_image(int64_t height, int64_t width, int64_t channels) {
    data::Image image(height, width, channels);
    for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 7 + i / 251);
    return image;
}

}  // namespace headroom::test
