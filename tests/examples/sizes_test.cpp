#include <headroom/examples/cli/sizes.hpp>

#include <gmock/gmock.h>

namespace headroom::cli {
namespace sizes_test {

using testing::Optional;

TEST(SizesTest, ReadsBytesAndUnits) {
    EXPECT_THAT(parse_bytes("0"), Optional(0u));
    EXPECT_THAT(parse_bytes("20000000"), Optional(20'000'000u));
    EXPECT_THAT(parse_bytes("17B"), Optional(17u));
    EXPECT_THAT(parse_bytes("64kB"), Optional(64'000u));
    EXPECT_THAT(parse_bytes("64 KiB"), Optional(65'536u));
    EXPECT_THAT(parse_bytes("512MiB"), Optional(std::uint64_t{512} << 20));
    EXPECT_THAT(parse_bytes("512M"), Optional(std::uint64_t{512} << 20));
    EXPECT_THAT(parse_bytes("1.5GB"), Optional(1'500'000'000u));
    EXPECT_THAT(parse_bytes("1.5 gib"), Optional(std::uint64_t{3} << 29));
    EXPECT_THAT(parse_bytes("2TB"), Optional(2'000'000'000'000u));
    EXPECT_THAT(parse_bytes("0.3KiB"), Optional(307u)) << "307.2, rounded";
    EXPECT_THAT(parse_bytes("598.464kB"), Optional(598'464u));
}

TEST(SizesTest, LosesNoDigit) {
    EXPECT_THAT(parse_bytes("18446744073709551615"), Optional(UINT64_MAX));
    EXPECT_THAT(parse_bytes("9007199254740993kB"), Optional(9'007'199'254'740'993'000u));
    EXPECT_EQ(parse_bytes("18446744073709551616"), std::nullopt);
    EXPECT_EQ(parse_bytes("16777216TiB"), std::nullopt);
    EXPECT_EQ(parse_bytes("99999999.5TiB"), std::nullopt);
}

TEST(SizesTest, RefusesWhatIsNoSize) {
    for (const char* text :
         {"",      "MB",    "-1",   "+1",   "1e6",  "nan",   "inf", ".",   "1.2.3", "1,5GB", "5 bytes",
          "5  MB", "5MBit", "0x10", "5MB ", " 5MB", "5KB/s", "5PB", "0.5", "2.0",   "0.5B"}) {
        EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
    }
}

}  // namespace sizes_test
}  // namespace headroom::cli
