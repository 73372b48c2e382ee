#include <bit>
#include <limits>

#include <fmt/format.h>

#include <headroom/data/tokens.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace tokens_test {

using test::ScratchFolder;
using test::throws;
using Tokens = std::vector<int32_t>;

Tokens read(const TokenView& view) {
    Tokens out(static_cast<std::size_t>(view.size()));
    view.copy(0, out);
    return out;
}

template <class T>
std::string as_bytes(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
class TokenViewOf : public ::testing::Test {};
using Formats = ::testing::Types<uint8_t, uint16_t, uint32_t, int32_t>;
TYPED_TEST_SUITE(TokenViewOf, Formats);

TYPED_TEST(TokenViewOf, ReadsAsI32) {
    const std::vector<TypeParam> tokens{5, 0, 99, 100, 7};
    const TokenView view(std::span<const TypeParam>(tokens), 101);
    EXPECT_EQ(view.size(), 5);
    EXPECT_EQ(read(view), (Tokens{5, 0, 99, 100, 7}));
    EXPECT_EQ(read(view.slice(1, 3)), (Tokens{0, 99, 100}));
    EXPECT_EQ(view.at(3), 100);
    EXPECT_EQ(view.find_invalid(), -1);
}

TYPED_TEST(TokenViewOf, RefusesTokensOutsideOfTheVocabulary) {
    const std::vector<TypeParam> tokens{5, 0, 99, 100, 7};
    const TokenView view(std::span<const TypeParam>(tokens), 100);
    EXPECT_EQ(view.find_invalid(), 3);
    EXPECT_THAT([&] { read(view); }, throws<Error>("token 100 at position 3", "vocabulary of 100"));
    EXPECT_EQ(read(view.slice(0, 3)), (Tokens{5, 0, 99}));  // what is not read does no harm
}

TEST(TokenView, RefusesNegativeTokens) {
    const Tokens tokens{1, -1};
    EXPECT_THAT([&] { read(TokenView(tokens, int64_t{1} << 31)); }, throws<Error>("token -1 at position 1"));
}

TEST(TokenView, RefusesTokensThatAreNotI32) {
    const std::vector<uint32_t> tokens{0x7fffffffu, 0x80000000u};
    const TokenView view(tokens, int64_t{1} << 31);
    EXPECT_EQ(read(view.slice(0, 1)), (Tokens{0x7fffffff}));
    EXPECT_THAT([&] { read(view); }, throws<Error>("token 2147483648 at position 1"));
}

TEST(TokenView, RefusesRangesOutsideOfItAlsoWhereTheyOverflow) {
    const Tokens tokens{1, 2, 3};
    const TokenView view(tokens, 10);
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    const std::pair<int64_t, int64_t> ranges[] = {{0, 4}, {3, 1}, {4, 0}, {-1, 1}, {0, -1}, {most, most}, {1, most}};
    for (const auto& range : ranges)
        EXPECT_THAT([&] { view.slice(range.first, range.second); }, throws<ShapeError>("exceed the 3 available"))
            << range.first << ' ' << range.second;
    Tokens out(2);
    EXPECT_THAT([&] { view.copy(2, out); }, throws<ShapeError>("exceed the 3 available"));
    EXPECT_THAT([&] { view.at(3); }, throws<ShapeError>("exceed the 3 available"));
    EXPECT_EQ(view.slice(3, 0).size(), 0);
}

TEST(TokenView, RefusesVocabulariesOfImpossibleSizes) {
    const Tokens tokens{1};
    for (const int64_t size : {int64_t{0}, int64_t{-5}, (int64_t{1} << 31) + 1})
        EXPECT_THAT([&] { TokenView(tokens, size); }, throws<Error>("vocabulary"));
}

TEST(SplitTokens, CutsWhereNanoGptCuts) {
    const std::vector<uint8_t> tokens(1'115'394);
    const TokenSplit parts = split_tokens(TokenView(tokens, 256));
    EXPECT_EQ(parts.train.size(), 1'003'854);  // int(1115394 * 0.9)
    EXPECT_EQ(parts.validation.size(), 111'540);
}

TEST(SplitTokens, PartsFollowOneAnother) {
    const Tokens tokens{0, 1, 2, 3, 4, 5, 6};
    const TokenSplit parts = split_tokens(TokenView(tokens, 7), 0.5);
    EXPECT_EQ(read(parts.train), (Tokens{0, 1, 2}));
    EXPECT_EQ(read(parts.validation), (Tokens{3, 4, 5, 6}));
    EXPECT_EQ(split_tokens(TokenView(tokens, 7), 1.0).validation.size(), 0);
    for (const double fraction : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
        EXPECT_THAT([&] { split_tokens(TokenView(tokens, 7), fraction); }, throws<Error>("fraction"));
}

TEST(TokenFile, ReadsBothWidthsAndSurvivesMoves) {
    const ScratchFolder folder;
    const auto narrow = folder.write("u16.bin", std::string("\x01\x00\x50\xc4\x00\x00", 6));
    const auto wide = folder.write("u32.bin", std::string("\x01\x00\x00\x00\x01\x86\x01\x00", 8));
    TokenFile file(narrow, TokenFormat::u16, 50257);
    EXPECT_EQ(read(file.view()), (Tokens{1, 50256, 0}));
    const TokenFile moved(std::move(file));
    EXPECT_EQ(read(moved.view()), (Tokens{1, 50256, 0}));
    EXPECT_EQ(read(TokenFile(wide, TokenFormat::u32, 100'000).view().slice(0, 1)), (Tokens{1}));
    EXPECT_EQ(read(TokenFile(wide, TokenFormat::u32, 100'354).view()), (Tokens{1, 99'841}));
}

TEST(TokenFile, ChecksTheVocabularyWhenItIsTold) {
    const ScratchFolder folder;
    const auto path = folder.write("train.bin", as_bytes(std::vector<uint16_t>{1, 2, 300, 4}));
    EXPECT_THAT([&] { TokenFile(path, TokenFormat::u16, 300); },
                throws<FileError>("train.bin", "token 300 at position 2", "vocabulary of 300"));
    const TokenFile lazy(path, TokenFormat::u16, 300, TokenCheck::at_reading);
    EXPECT_EQ(read(lazy.view().slice(0, 2)), (Tokens{1, 2}));
    EXPECT_THAT([&] { read(lazy.view()); }, throws<Error>("token 300 at position 2"));
}

/// An array of NumPy, with a header as numpy.save pads it.
std::string npy(const std::string& type, const std::string& shape, const std::string& numbers, char version = 1,
                const char* by_columns = "False") {
    std::string header = fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}", type, by_columns, shape);
    const std::size_t before = version == 1 ? 10 : 12;
    header.resize((before + header.size() + 1 + 63) / 64 * 64 - before - 1, ' ');
    header += '\n';
    std::string length(version == 1 ? 2 : 4, '\0');
    length[0] = static_cast<char>(header.size());
    return std::string("\x93NUMPY", 6) + version + '\0' + length + header + numbers;
}

TEST(TokenFile, ReadsArraysOfNumPyWithoutTheirHeader) {
    const ScratchFolder folder;
    const std::string shorts = as_bytes(std::vector<uint16_t>{1, 2, 300, 4}),
                      longs = as_bytes(Tokens{1, 2, 300, 70'000});
    for (const char version : {'\1', '\2', '\3'})
        EXPECT_EQ(
            read(TokenFile(folder.write("a.npy", npy("'<u2'", "(4,)", shorts, version)), TokenFormat::u16, 301).view()),
            (Tokens{1, 2, 300, 4}));
    EXPECT_EQ(read(TokenFile(folder.write("a.npy", npy("'<u2'", "(2, 2)", shorts)), TokenFormat::u16, 301).view()),
              (Tokens{1, 2, 300, 4}));
    for (const char* const type : {"'<u4'", "'<i4'"})
        EXPECT_EQ(read(TokenFile(folder.write("a.npy", npy(type, "(4,)", longs)), TokenFormat::u32, 100'000).view()),
                  (Tokens{1, 2, 300, 70'000}));
    EXPECT_THAT(
        [&] { TokenFile(folder.write("a.npy", npy("'<i4'", "(1,)", as_bytes(Tokens{-1}))), TokenFormat::u32, 9); },
        throws<FileError>("token 4294967295"));
    const auto refused = [&](const std::string& bytes, const char* part) {
        const auto path = folder.write("a.npy", bytes);
        EXPECT_THAT([&] { TokenFile(path, TokenFormat::u16, 70'000); }, throws<FileError>("a.npy", part));
    };
    refused(npy("'<i8'", "(1,)", std::string(8, '\0')),
            "numbers are '<i8'; these tokens are uint16: save array.astype('uint16')");
    refused(npy("'<i2'", "(4,)", shorts), "numbers are '<i2'");
    refused(npy("'>u2'", "(4,)", shorts), "numbers are '>u2'");
    refused(npy("[('a', '<u2')]", "(4,)", shorts), "numbers are [('a'");
    refused(npy("'<u2'", "(5,)", shorts), "5 numbers, but 8 bytes follow");
    refused(npy("'<u2'", "(3,)", shorts), "3 numbers, but 8 bytes follow");
    refused(npy("'<u2'", "(4294967296, 4294967296)", shorts), "more numbers than it has bytes");
    refused(npy("'<u2'", "(2, 2)", shorts, 1, "True"), "by columns");
    refused(npy("'<u2'", "(4,)", shorts).substr(0, 40), "truncated");
    refused(npy("'<u2'", "(4,)", shorts).substr(0, 8), "truncated");
}

/// 256 numbers of a header: a mark, a version, the number of tokens.
TEST(TokenFile, ReadsFilesOfLlmCWithoutTheirHeader) {
    const ScratchFolder folder;
    const std::vector<uint16_t> tokens{1, 2, 300};
    const auto with = [&](uint32_t mark, uint32_t version, uint32_t count, const std::string& numbers) {
        std::vector<uint32_t> header(256);
        header[0] = mark, header[1] = version, header[2] = count;
        return folder.write("train.bin", as_bytes(header) + numbers);
    };
    const std::string shorts = as_bytes(tokens), longs = as_bytes(Tokens{1, 2, 100'000});
    EXPECT_EQ(read(TokenFile(with(20240520, 1, 3, shorts), TokenFormat::u16, 301).view()), (Tokens{1, 2, 300}));
    EXPECT_EQ(read(TokenFile(with(20240801, 7, 3, longs), TokenFormat::u32, 128'256).view()), (Tokens{1, 2, 100'000}));
    EXPECT_THAT([&] { TokenFile(with(20240520, 1, 4, shorts), TokenFormat::u16, 70'000); },
                throws<FileError>("llm.c's header that claims 4 numbers, but 6 bytes follow"));
    EXPECT_THAT([&] { TokenFile(with(20240520, 1, 3, shorts + "  "), TokenFormat::u32, 70'000); },
                throws<FileError>("llm.c's header, which are uint16"));
    EXPECT_EQ(TokenFile(with(20240520, 2, 3, shorts), TokenFormat::u16, 70'000).view().size(), 512 + 3);
}

TEST(TokenFile, RefusesArchives) {
    const ScratchFolder folder;
    for (const std::string begin : {"PK\3\4", "\x89HDF\r\n\x1a\n", "PAR1", "ARROW1"})
        EXPECT_THAT([&] { TokenFile(folder.write("x", begin + std::string(80, '\0')), TokenFormat::u16, 70'000); },
                    throws<FileError>("tokens are a file of numbers alone"));
}

TEST(TokenFile, RefusesBrokenFiles) {
    const ScratchFolder folder;
    EXPECT_THAT([&] { TokenFile(folder.write("odd", "abc"), TokenFormat::u16, 70'000); },
                throws<FileError>("odd", "3 bytes", "2-byte"));
    EXPECT_THAT([&] { TokenFile(folder.write("odd", "abcdef"), TokenFormat::u32, 70'000); },
                throws<FileError>("6 bytes", "4-byte"));
    EXPECT_THAT([&] { TokenFile(folder.write("empty", ""), TokenFormat::u16, 300); }, throws<FileError>("empty"));
    EXPECT_THAT([&] { TokenFile(folder.path() / "none", TokenFormat::u16, 300); }, throws<FileError>("no such file"));
    EXPECT_THAT([&] { TokenFile(folder.path(), TokenFormat::u16, 300); }, throws<FileError>("folder"));
}

}  // namespace tokens_test
}  // namespace headroom::data
