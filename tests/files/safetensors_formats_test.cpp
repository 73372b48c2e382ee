// What the safetensors library reads is read here, too, as far as a model needs it; and models in parts.
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/files/checkpoint.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/files/raw_safetensors.hpp>

namespace headroom::files {
namespace safetensors_formats_test {

using headroom::test::entry, headroom::test::file_of, headroom::test::object;
using headroom::test::ScratchFolder;
using headroom::test::throws;

template <class T>
std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

class SafetensorsFormats : public ::testing::Test {
  protected:
    /// A file of "x" alone.
    std::filesystem::path write(const std::string& dtype, const std::string& shape, const std::string& data) const {
        return folder.write(
            "x.safetensors",
            file_of(object(entry(fmt::format("\"{}\"", dtype), shape, fmt::format("[0,{}]", data.size()))), data));
    }
    std::filesystem::path write_tensor(const std::string& file, const std::string& name, float value) {
        write_safetensors(folder.path() / file, context, {{name, context.scalar(value).array()}});
        return folder.path() / file;
    }
    std::int64_t loaded_count(const std::filesystem::path& path) {
        const Tensor count = context.from_host(std::vector<std::int64_t>{99}, {});
        load_arrays(SafetensorsFile(path), context, {{"x", count.array()}});
        return count.to_vector<std::int64_t>().at(0);
    }

    Context context = Context::cpu({.threads = 1});
    ScratchFolder folder;
};

TEST_F(SafetensorsFormats, MetadataMayBeNullAndHaveAnyKeys) {
    const std::string x = entry("\"F32\"", "[1]", "[0,4]");
    EXPECT_TRUE(
        SafetensorsFile(folder.write("null", file_of("{\"__metadata__\":null," + x + "}", 4))).metadata().empty());
    const std::string longest(5000, 'k');
    const SafetensorsFile file(folder.write(
        "keys",
        file_of("{\"__metadata__\":{\"a\\nb\":\"1\",\"" + longest + "\":\"2\",\"\":\"3\",\"x\":\"4\"}," + x + "}", 4)));
    EXPECT_EQ(file.metadata(), (Metadata{{"", "3"}, {"a\nb", "1"}, {longest, "2"}, {"x", "4"}}));
    EXPECT_TRUE(file.find("x"));
}

TEST_F(SafetensorsFormats, OtherDtypesAndRanksAreOnlyRefusedWhereTheyAreNeeded) {
    const std::pair<const char*, std::size_t> dtypes[] = {
        {"I8", 8},      {"I16", 16},    {"U16", 16},        {"U32", 32},        {"U64", 64},
        {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8},
        {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},          {"C64", 64}};
    for (const auto& [dtype, bits] : dtypes) {
        const SafetensorsFile file(write(dtype, "[3,8]", std::string(3 * bits, '\1')));
        EXPECT_EQ(file.find("x")->unreadable, dtype);
        const Tensor target = context.from_host(std::vector<float>(24, 5.0f), {3, 8});
        EXPECT_EQ(load_arrays(file, context, {}, {.partial = true}).left_over, std::vector<std::string>{"x"});
        EXPECT_THAT(
            [&] {
                load_arrays(file, context, {{"x", target.array()}});
            },
            throws<DtypeError>(fmt::format("x is {} in the file, which can't be read", dtype)));
        EXPECT_THAT([&] { file.copy_to(*file.find("x"), context, target.array()); }, throws<FileError>("x is", dtype));
        EXPECT_EQ(target.to_vector<float>(), std::vector<float>(24, 5.0f));
    }
    const SafetensorsFile deep(write("F32", "[1,2,1,1,2,1,1]", std::string(16, '\1')));
    EXPECT_EQ(deep.find("x")->unreadable, "F32 of rank 7");
    EXPECT_THAT([&] { SafetensorsFile file(write("F4", "[3]", std::string(1, '\0'))); },
                throws<FileError>("x: F4 [3] takes 1 bytes"));
    EXPECT_THAT([&] { SafetensorsFile file(write("F32", "[1,2,1,1,2,1,1]", std::string(12, '\0'))); },
                throws<FileError>("x: F32 of rank 7", "takes 16 bytes"));
}

/// As batch norm's, which old files have as floats and some of shape [1].
TEST_F(SafetensorsFormats, CountsAreReadOfAnyDtype) {
    const std::pair<const char*, std::string> files[] = {{"I64", raw<std::int64_t>(-7)},
                                                         {"I32", raw<std::int32_t>(-7)},
                                                         {"I16", raw<std::int16_t>(-7)},
                                                         {"I8", raw<std::int8_t>(-7)},
                                                         {"U8", raw<std::uint8_t>(200)},
                                                         {"U16", raw<std::uint16_t>(40000)},
                                                         {"U32", raw<std::uint32_t>(1u << 31)},
                                                         {"U64", raw<std::uint64_t>(1u << 31)},
                                                         {"BOOL", raw<char>(1)},
                                                         {"F32", raw<float>(1000)},
                                                         {"F64", raw<double>(1000)},
                                                         {"BF16", raw<std::uint16_t>(0x447a)},
                                                         {"F16", raw<std::uint16_t>(0x63d0)}};
    for (const auto& [dtype, bytes] : files) {
        const std::int64_t want = dtype[0] == 'I'                      ? -7
                                  : dtype[0] == 'B' && dtype[1] == 'O' ? 1
                                  : dtype[0] == 'F' || dtype[0] == 'B' ? 1000
                                  : bytes.size() == 1                  ? 200
                                  : bytes.size() == 2                  ? 40000
                                                                       : std::int64_t{1} << 31;
        for (const char* const shape : {"[]", "[1]"})
            EXPECT_EQ(loaded_count(write(dtype, shape, bytes)), want) << dtype;
    }
    EXPECT_THAT([&] { loaded_count(write("I64", "[2]", std::string(16, '\0'))); },
                throws<ShapeError>("x has shape [2]"));
    EXPECT_THAT([&] { loaded_count(write("F8_E4M3", "[]", "\1")); }, throws<FileError>("x is not a whole number"));
    EXPECT_THAT([&] { loaded_count(write("C64", "[]", std::string(8, '\0'))); },
                throws<FileError>("not a whole number"));
    EXPECT_THAT([&] { loaded_count(write("F16", "[1]", raw<std::uint16_t>(0x7c00))); },
                throws<FileError>("x.safetensors: x is not a whole number"));
    EXPECT_THAT([&] { loaded_count(write("U64", "[]", std::string(8, '\xff'))); },
                throws<FileError>("not a whole number"));
}

TEST_F(SafetensorsFormats, ACountThatIsNoneChangesNothing) {
    const auto path =
        folder.write("two.safetensors", file_of(object(test::named_entry("w", "\"F32\"", "[1]", "[0,4]") + "," +
                                                       test::named_entry("n", "\"F32\"", "[]", "[4,8]")),
                                                raw<float>(3) + raw<std::uint32_t>(0x7fc00000)));
    const Tensor w = context.from_host(std::vector<float>{5}, {1}),
                 n = context.from_host(std::vector<std::int64_t>{6}, {});
    EXPECT_THAT(
        [&] {
            load_arrays(SafetensorsFile(path), context, {{"w", w.array()}, {"n", n.array()}});
        },
        throws<FileError>("n is not a whole number"));
    EXPECT_EQ(w.to_vector<float>(), std::vector<float>{5});
    EXPECT_EQ(n.to_vector<std::int64_t>(), std::vector<std::int64_t>{6});
}

TEST_F(SafetensorsFormats, APrefixOfAllNamesMayBeLeftOut) {
    const auto two = [&](const std::string& before) {
        write_safetensors(
            folder.path() / "x", context,
            {{before + "fc.weight", context.scalar(3).array()}, {before + "bias", context.scalar(4).array()}});
        return SafetensorsFile(folder.path() / "x");
    };
    const Tensor weight = context.scalar(0), bias = context.scalar(0);
    const std::vector<NamedArray> wanted{{"fc.weight", weight.array()}, {"bias", bias.array()}};
    for (const char* const before : {"", "module.", "model.", "_orig_mod.module.", "net.0."}) {
        weight.array().view().as<float>()[0] = 0;
        EXPECT_EQ(load_arrays(two(before), context, wanted).prefix, before);
        EXPECT_EQ(weight.item() + bias.item(), 7) << before;
    }
    const SafetensorsFile file = two("a.b.");
    EXPECT_EQ(file.find("b.bias"), file.find("a.b.bias"));
    EXPECT_EQ(file.find("bias"), file.find("a.b.bias"));
    EXPECT_EQ(file.find("a.bias"), nullptr);
    EXPECT_EQ(file.find(""), nullptr);
    const LoadReport report = load_arrays(file, context, {wanted[0]}, {.partial = true});
    EXPECT_EQ(report.left_over, std::vector<std::string>{"bias"});
    EXPECT_EQ(load_arrays(file, context, {wanted[0]}, {.ignore = [](std::string_view name) { return name == "bias"; }})
                  .left_over,
              std::vector<std::string>());
}

/// Which prefix is left out is one question for all names.
TEST_F(SafetensorsFormats, OnePrefixIsLeftOut) {
    write_safetensors(folder.path() / "x", context,
                      {{"a.a.fc", context.scalar(3).array()}, {"a.bias", context.scalar(4).array()}});
    const SafetensorsFile file(folder.path() / "x");
    const Tensor x = context.scalar(0), y = context.scalar(0);
    const LoadReport report =
        load_arrays(file, context, {{"a.bias", x.array()}, {"a.fc", y.array()}}, {.partial = true});
    EXPECT_EQ(report.missing, std::vector<std::string>{"a.fc"});
    EXPECT_EQ(x.item(), 4);
    EXPECT_EQ(y.item(), 0);
}

/// However large they are: files are read in pieces.
TEST_F(SafetensorsFormats, EqualTensorsAreSoInEachByte) {
    constexpr std::size_t kPiece = std::size_t{1} << 20, kBytes = 5 * kPiece / 2;
    const auto entry = [&](const char* name, std::size_t begin) {
        return test::named_entry(name, R"("U8")", fmt::format("[{}]", kBytes),
                                 fmt::format("[{}, {}]", begin, begin + kBytes));
    };
    const std::string header = test::object(entry("a", 0) + "," + entry("b", kBytes));
    const auto equal = [&](const std::string& data) {
        const SafetensorsFile file(folder.write("two", test::file_of(header, data)));
        return file.equal(*file.find("a"), *file.find("b"));
    };
    const std::string same(2 * kBytes, '\0');
    EXPECT_TRUE(equal(same));
    for (const std::size_t place : {std::size_t{0}, kPiece - 1, kPiece, 2 * kPiece, kBytes - 1}) {
        std::string other = same;
        other[kBytes + place] = 1;
        EXPECT_FALSE(equal(other)) << place;
    }
}

TEST_F(SafetensorsFormats, PartsAreReadByTheirIndex) {
    write_tensor("model-00001-of-00002.safetensors", "a", 3);
    write_tensor("model-00002-of-00002.safetensors", "b", 4);
    const auto index = [&](const std::string& a, const std::string& b) {
        return folder.write("model.safetensors.index.json",
                            fmt::format("\n{{\"metadata\": {{\"total_size\": 8}}, \"weight_map\": {{\"a\": \"{}\", "
                                        "\"b\": \"{}\"}}}}",
                                        a, b));
    };
    const std::string first = "model-00001-of-00002.safetensors", second = "model-00002-of-00002.safetensors";
    const Tensor a = context.scalar(0), b = context.scalar(0);
    const std::vector<NamedArray> wanted{{"a", a.array()}, {"b", b.array()}};
    const SafetensorsFile file(index(first, second));
    EXPECT_EQ(file.entries().size(), 2u);
    load_arrays(file, context, wanted);
    EXPECT_EQ(a.item(), 3);
    EXPECT_EQ(b.item(), 4);
    EXPECT_FALSE(file.equal(*file.find("a"), *file.find("b")));

    const auto opening = [](const std::filesystem::path& path) { return [=] { SafetensorsFile opened(path); }; };
    EXPECT_THAT(opening(index(second, second)), throws<FileError>("index.json: a is not in " + second));
    EXPECT_THAT(opening(index("../" + first, second)), throws<FileError>("names ../" + first + " for a"));
    EXPECT_THAT(opening(index("", second)), throws<FileError>("must name a file in its own folder"));
    EXPECT_THAT(opening(folder.write("index.json", "{\"weight_map\": {\"a\": 3}}")),
                throws<FileError>("no file for a"));
    EXPECT_THAT(opening(folder.write("index.json", "{\"weight_map\": {}} ")), throws<FileError>("names no tensors"));
    EXPECT_THAT([&] { load_arrays(SafetensorsFile(folder.path() / first), context, wanted); },
                throws<Error>("lacks b", "one of several parts", ".safetensors.index.json"));
    write_tensor(second, "a", 4);
    EXPECT_THAT(opening(index(first, second)), throws<FileError>("a is in two of its parts"));
    folder.write(second, "version https://git-lfs.github.com/spec/v1\n");
    EXPECT_THAT(opening(index(first, second)), throws<FileError>(second, "a Git LFS pointer"));
    std::filesystem::remove(folder.path() / second);
    EXPECT_THAT(opening(index(first, second)),
                throws<FileError>("index.json: its part " + second + " is missing; put it in the folder of the index"));
}

}  // namespace safetensors_formats_test
}  // namespace headroom::files
