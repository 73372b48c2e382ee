// Files that lie: every one is refused with one line that names the file and what is wrong with it.
#include <cstdint>
#include <random>
#include <string>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/files/raw_safetensors.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::files {
namespace safetensors_corrupt_test {

using headroom::test::entry, headroom::test::file_of, headroom::test::object, headroom::test::with_length;
using headroom::test::ScratchFolder;
using headroom::test::throws;

class CorruptSafetensors : public ::testing::Test {
  protected:
    /// A fresh file: rewriting an old one in place makes file systems wait for the disk.
    std::filesystem::path write(const std::string& bytes) const {
        std::filesystem::remove(folder.path() / "x.safetensors");
        return folder.write("x.safetensors", bytes);
    }
    template <class... Parts>
    void refused(const std::string& bytes, const Parts&... parts) const {
        const auto path = write(bytes);
        EXPECT_THAT([&] { SafetensorsFile file(path); }, throws<FileError>(path.string(), parts...))
            << bytes.substr(0, 200);
    }
    void accepted(const std::string& bytes) const { EXPECT_NO_THROW(SafetensorsFile file(write(bytes))) << bytes; }
    ScratchFolder folder;
};

TEST_F(CorruptSafetensors, ASoundFileIsAccepted) {
    accepted(file_of("{}"));
    accepted(file_of(object(entry("\"F32\"", "[2]", "[0,8]")), 8));
    accepted(file_of(
        object(entry("\"F32\"", "[0]", "[0,0]") + ",\"y\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}") +
            "  ",
        3));
}

TEST_F(CorruptSafetensors, MissingFileFolderAndDevice) {
    EXPECT_THAT([&] { SafetensorsFile file(folder.path() / "none"); }, throws<FileError>("none", "No such file"));
    EXPECT_THAT([&] { SafetensorsFile file(folder.path()); }, throws<FileError>("is a folder"));
    EXPECT_THAT([&] { SafetensorsFile file("/dev/zero"); }, throws<FileError>("/dev/zero", "is a device"));
    const auto pipe = folder.path() / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);  // opening one waits for its other end
    EXPECT_THAT([&] { SafetensorsFile file(pipe); }, throws<FileError>("pipe", "is a device"));
}

TEST_F(CorruptSafetensors, TooShortOrLyingLength) {
    refused("", "0 bytes");
    refused("1234567", "7 bytes");
    refused(with_length("{}", 3), "claims 3 bytes", "has 2");
    refused(with_length("{}", ~std::uint64_t{0}), "claims");
    refused(with_length("{}", std::uint64_t{1} << 63), "claims");
    refused(with_length("{}", 0), "not valid JSON");
    refused(with_length("{}", 1), "not valid JSON");
}

TEST_F(CorruptSafetensors, NotJsonOrNotAnObject) {
    refused(file_of("hello"), "not valid JSON");
    refused(file_of("{\"x\":"), "not valid JSON");
    refused(file_of("{} {}"), "not valid JSON");
    refused(file_of(std::string("{\"\xff\":1}")), "not valid JSON");
    refused(file_of("{\"x\":1e999}"), "a number that is too large");
    refused(file_of("[]"), "not a JSON object");
    refused(file_of("3"), "not a JSON object");
    refused(file_of("null"), "not a JSON object");
    refused(file_of("{\"x\":3}"), "x: ", "missing");
    refused(file_of("{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4), "x: ", "missing");
    refused(file_of(std::string(100'000, '[')), "not valid JSON");
}

TEST_F(CorruptSafetensors, DuplicateAndUnprintableNames) {
    const std::string x = entry("\"F32\"", "[1]", "[0,4]");
    refused(file_of(object(x + "," + x), 4), "\"x\"", "twice");
    refused(file_of("{\"x\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4), "twice");
    refused(file_of("{\"a\\nb\":{}}"), "control characters");
    refused(file_of("{\"" + std::string(5000, 'a') + "\":{}}"), "too long");
}

TEST_F(CorruptSafetensors, Metadata) {
    accepted(file_of("{\"__metadata__\":{\"a\":\"b\"}}"));
    refused(file_of("{\"__metadata__\":3}"), "metadata is not an object");
    refused(file_of("{\"__metadata__\":{\"a\":null}}"), "\"a\" is not a string");
    refused(file_of("{\"__metadata__\":{\"a\":3}}"), "\"a\" is not a string");
}

TEST_F(CorruptSafetensors, Dtypes) {
    for (const char* dtype : {"\"F5\"", "\"f32\"", "\"\""}) {
        refused(file_of(object(entry(dtype, "[1]", "[0,4]")), 4), "x: unknown dtype");
    }
    for (const char* dtype : {"3", "null", "[\"F32\"]"}) {
        refused(file_of(object(entry(dtype, "[1]", "[0,4]")), 4), "not a string");
    }
    refused(file_of(object(entry("\"a\\nb\"", "[1]", "[0,4]")), 4), "unknown dtype with an unreadable name");
    // Printing such a value would recurse once per level.
    const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
    refused(file_of(object(entry(deep, "[1]", "[0,4]")), 4), "not a string");
}

TEST_F(CorruptSafetensors, Shapes) {
    for (const char* shape : {"3", "\"[1]\"", "{}"}) {
        refused(file_of(object(entry("\"F32\"", shape, "[0,4]")), 4), "x: the shape must be");
    }
    for (const char* shape : {"[-1]", "[1.0]", "[\"1\"]", "[null]", "[18446744073709551616]"}) {
        refused(file_of(object(entry("\"F32\"", shape, "[0,4]")), 4), "x: a size is not a whole number");
    }
    for (const char* shape : {"[9223372036854775807]", "[18446744073709551615]", "[4294967296,4294967296]",
                              "[2305843009213693952]", "[0,18446744073709551615]", "[65536,65536,65536,65536]"}) {
        refused(file_of(object(entry("\"F32\"", shape, "[0,0]"))), "too many elements");
    }
    refused(file_of(object(entry("\"U8\"", "[9223372036854775807]", "[0,4]")), 4), "takes 9223372036854775807");
}

TEST_F(CorruptSafetensors, Offsets) {
    for (const char* offsets : {"3", "[0]", "[0,4,8]", "{}", "null"}) {
        refused(file_of(object(entry("\"F32\"", "[1]", offsets)), 4), "data_offsets must be two numbers");
    }
    for (const char* offsets : {"[-4,0]", "[0.0,4]", "[\"0\",4]", "[0,18446744073709551616]"}) {
        refused(file_of(object(entry("\"F32\"", "[1]", offsets)), 4), "an offset is not a whole number");
    }
    for (const char* offsets : {"[0,3]", "[0,8]", "[4,0]", "[0,18446744073709551615]", "[18446744073709551615,3]"}) {
        refused(file_of(object(entry("\"F32\"", "[1]", offsets)), 8), "x: f32 [1] takes 4 bytes");
    }
    refused(file_of(object(entry("\"F32\"", "[1]", "[4,8]")), 8), "begins at byte 4, not 0");
    refused(file_of(object(entry("\"F32\"", "[1]", "[18446744073709551611,18446744073709551615]")), 8), "truncated");
}

TEST_F(CorruptSafetensors, OverlapsGapsTruncatedAndTrailingBytes) {
    const auto two = [](const std::string& first, const std::string& second) {
        return object(entry("\"U8\"", "[4]", first) +
                      ",\"y\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + second + "}");
    };
    accepted(file_of(two("[4,8]", "[0,4]"), 8));
    refused(file_of(two("[0,4]", "[0,4]"), 8), "overlap");
    refused(file_of(two("[0,4]", "[2,6]"), 8), "overlap");
    refused(file_of(two("[0,4]", "[5,9]"), 9), "gaps");
    refused(file_of(two("[0,4]", "[4,8]"), 7), "y: ends at byte 8 of 7", "truncated");
    refused(file_of(two("[0,4]", "[4,8]"), 0), "truncated");
    refused(file_of(two("[0,4]", "[4,8]"), 11), "3 bytes follow");
}

TEST_F(CorruptSafetensors, BoolsAreZeroOrOne) {
    std::string bytes = file_of(object(entry("\"BOOL\"", "[2]", "[0,2]")), 2);
    bytes.back() = 2;
    const SafetensorsFile file(write(bytes));
    Context context = Context::cpu({.threads = 1});
    const Array target = context.exec().empty({2}, Dtype::boolean);
    EXPECT_THAT([&] { file.copy_to(*file.find("x"), context, target); }, throws<FileError>("must be 0 or 1"));
}

/// Damage anywhere is either refused with a FileError or leaves a file that can be read.
TEST_F(CorruptSafetensors, RandomDamageNeverCrashes) {
    std::mt19937_64 random(test::random_seed());
    const std::string sound = file_of("{\"__metadata__\":{\"a\":\"b\"}," + entry("\"F32\"", "[2,3]", "[0,24]") +
                                          ",\"y\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[24,32]}}",
                                      32);
    Context context = Context::cpu({.threads = 1});
    for (int round = 0; round < 300; ++round) {
        std::string bytes = sound;
        for (std::uint64_t i = 0; i <= random() % 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
        if (random() % 4 == 0) bytes.resize(random() % bytes.size());
        const auto path = write(bytes);
        try {
            const SafetensorsFile file(path);
            for (const SafetensorsEntry& each : file.entries()) {
                file.copy_to(each, context, context.exec().empty(each.shape, each.dtype));
            }
        } catch (const FileError& error) {
            EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        }
    }
}

}  // namespace safetensors_corrupt_test
}  // namespace headroom::files
