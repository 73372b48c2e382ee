#include <headroom/data/utf8.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace utf8_test {

using test::throws;
using namespace std::string_literals;

std::vector<uint32_t> code_points(std::string_view text) {
    std::vector<uint32_t> points;
    for_each_code_point(text, [&](uint32_t point, std::size_t) { points.push_back(point); });
    return points;
}

TEST(Utf8, EveryCodePointComesBack) {
    std::vector<uint32_t> points;
    std::string text;
    for (uint32_t point = 0; point < 0x110000; ++point) {
        if (point >= 0xd800 && point <= 0xdfff) continue;
        points.push_back(point);
        append_utf8(text, point);
    }
    EXPECT_EQ(text.size(), 0x80u + 2 * 0x780u + 3 * (0xf800u - 0x800u) + 4 * 0x100000u);
    EXPECT_EQ(code_points(text), points);
}

TEST(Utf8, KnownBytesAreKnownCharacters) {
    EXPECT_EQ(code_points("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
              (std::vector<uint32_t>{'a', 0xe4, 0x20ac, 0x1f600}));
    EXPECT_TRUE(code_points("").empty());
}

TEST(Utf8, InvalidBytesAreReportedWithTheirOffset) {
    const std::pair<std::string, const char*> cases[] = {
        {"\x80", "byte 0 (0x80)"},              // continuation without a lead
        {"ab\xff", "byte 2 (0xff)"},            // never in UTF-8
        {"\xc0\x80", "byte 0 (0xc0)"},          // overlong zero
        {"x\xc1\xbf", "byte 1 (0xc1)"},         // overlong
        {"\xe0\x9f\xbf", "byte 0 (0xe0)"},      // overlong, three bytes
        {"\xf0\x8f\xbf\xbf", "byte 0 (0xf0)"},  // overlong, four bytes
        {"\xed\xa0\x80", "byte 0 (0xed)"},      // surrogate
        {"\xed\xbf\xbf", "byte 0 (0xed)"},      // surrogate
        {"\xf4\x90\x80\x80", "byte 0 (0xf4)"},  // above U+10FFFF
        {"\xf5\x80\x80\x80", "byte 0 (0xf5)"},  // above U+10FFFF
        {"\xc3\xa4\xc3", "byte 2 (0xc3)"},      // cut
        {"\xe2\x82", "byte 0 (0xe2)"},          // cut
        {"ok\xf0\x9f\x98", "byte 2 (0xf0)"},    // cut
        {"\xe2\x28\xa1", "byte 0 (0xe2)"},      // continuation missing
        {"\xff\xfeh\0i\0"s, "byte 0 (0xff)"},   // UTF-16
        {"caf\xe9 noir", "byte 3 (0xe9)"},      // Latin-1
    };
    for (const auto& sample : cases)
        EXPECT_THAT([&] { code_points(sample.first); }, throws<Error>("invalid UTF-8", sample.second)) << sample.second;
}

TEST(Utf8, WhatIsNoCharacterIsNotEncoded) {
    std::string text;
    for (const uint32_t point : {0xd800u, 0xdfffu, 0x110000u, 0xffffffffu})
        EXPECT_THAT([&] { append_utf8(text, point); }, throws<Error>("not a Unicode character"));
    EXPECT_TRUE(text.empty());
}

TEST(Utf8, PrintableKeepsTextAndReplacesTheRest) {
    EXPECT_EQ(printable("tab\t, line\n, \xc3\xa4"), "tab\t, line\n, \xc3\xa4");
    EXPECT_EQ(printable("a\x1b[31mb"), "a\xef\xbf\xbd[31mb");  // escape sequence
    EXPECT_EQ(printable("\xc2\x9b"), "\xef\xbf\xbd");          // the same in one character, C1
    EXPECT_EQ(printable("\0\x7f\r"s), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    EXPECT_EQ(printable("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");  // cut: each byte by itself
    EXPECT_EQ(printable("x\xffy"), "x\xef\xbf\xbdy");
}

}  // namespace utf8_test
}  // namespace headroom::data
