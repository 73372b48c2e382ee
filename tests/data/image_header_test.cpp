#include <random>
#include <string_view>

#include <fmt/format.h>

#include <headroom/data/image_geometry.hpp>
#include <headroom/data/image_header.hpp>
#include <headroom/tests/data/pictures.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace image_header_test {

using test::contents_of;
using test::numbered_image;
using test::reference;
using test::ScratchFolder;
using test::with_exif;

const std::vector<const char*> files = {"rgb.png",          "palette.png",    "grey.png",     "bit.png",
                                        "interlaced.png",   "sixteen.png",    "baseline.jpg", "progressive.jpg",
                                        "sixteen_grey.png", "grey_alpha.png", "luma.jpg",     "cmyk.jpg",
                                        "turned_3.jpg",     "turned_8.jpg",   "turned_6.png"};

TEST(ImageHeader, HasTheSizeOfTheDecodedImage) {
    for (const char* name : files) {
        const auto header = image_header(contents_of(reference(name)));
        ASSERT_TRUE(header) << name;
        for (const Orientation reading : {Orientation::upright, Orientation::stored}) {
            const Image image = read_image(reference(name), Colors::rgb, reading);
            EXPECT_EQ(header->size(reading), std::pair(image.height, image.width)) << name;
        }
        const auto again = whole_image_header(reference(name));
        ASSERT_TRUE(again) << name;
        EXPECT_EQ(std::tie(again->height, again->width, again->orientation, again->ids),
                  std::tie(header->height, header->width, header->orientation, header->ids));
    }
}

TEST(ImageHeader, SaysOrientationsAndWhatMayBeAMask) {
    for (const char orientation : {'1', '2', '3', '4', '5', '6', '7', '8'}) {
        const auto header = image_header(contents_of(reference(std::string("turned_") + orientation + ".jpg")));
        EXPECT_EQ(header->orientation, orientation - '0');
    }
    for (const char* name : files) {
        bool is_mask = true;
        try {
            read_mask(reference(name));
        } catch (const BadImage&) {
            is_mask = false;
        }
        EXPECT_EQ(image_header(contents_of(reference(name)))->ids, is_mask) << name;
    }
}

TEST(ImageHeader, KnowsExifDataBehindThePixels) {
    const ScratchFolder folder;
    write_png(folder.path() / "a.png", numbered_image(3, 4, 3));
    const std::string bytes = with_exif(contents_of(folder.path() / "a.png"), 5);
    EXPECT_EQ(image_header(bytes)->orientation, 5);
    EXPECT_EQ(decode_image(bytes, "a").height, 4);
}

TEST(ImageHeader, ReadsTheOrientationAsShortAndAsLongInBothByteOrders) {
    const ScratchFolder folder;
    const Image image = numbered_image(3, 4, 3);
    write_png(folder.path() / "a.png", image);
    for (const bool little : {false, true})
        for (const int bytes : {2, 4})
            for (const int orientation : {1, 3, 6, 8}) {
                SCOPED_TRACE(fmt::format("{} of {} bytes, little: {}", orientation, bytes, little));
                const std::string turned =
                    with_exif(contents_of(folder.path() / "a.png"), orientation, {.little = little, .bytes = bytes});
                EXPECT_EQ(image_header(turned)->orientation, orientation);
                EXPECT_EQ(decode_image(turned, "a"), orientation == 1 ? image : turn(image, orientation));
            }
}

TEST(ImageHeader, KnowsGreyOfSixteenBits) {
    for (const char* name : files)
        EXPECT_EQ(image_header(contents_of(reference(name)))->wide_grey, std::string_view(name) == "sixteen_grey.png")
            << name;
    constexpr std::size_t bits = 24, colors = 25;  // places in the file
    std::string bytes = contents_of(reference("sixteen_grey.png"));
    for (const auto& [type, grey] : {std::pair{'\0', true}, {'\2', false}, {'\4', true}, {'\6', false}}) {
        bytes[colors] = type;  // RGB, and both with transparency
        bytes[bits] = 16;
        EXPECT_EQ(image_header(bytes)->wide_grey, grey) << int{type};
        bytes[bits] = 8;
        EXPECT_FALSE(image_header(bytes)->wide_grey) << int{type};
    }
}

TEST(ImageHeader, IsReadOfAnyBytes) {
    constexpr unsigned seed = 20240607;
    std::mt19937 random(seed);
    int turned = 0;
    for (const char* name : {"turned_6.png", "turned_8.jpg", "cmyk.jpg"}) {
        const std::string whole = contents_of(reference(name));
        for (int i = 0; i < 3000; ++i) {
            std::string changed = whole.substr(0, random() % 3 == 0 ? random() % whole.size() : whole.size());
            for (int j = 0; j < 3 && !changed.empty(); ++j)
                changed[random() % std::min<std::size_t>(changed.size(), 200)] = static_cast<char>(random());
            const auto header = image_header(changed);
            if (!header) continue;
            EXPECT_GE(header->orientation, 1) << name << ", seed " << seed;
            EXPECT_LE(header->orientation, 8) << name << ", seed " << seed;
            turned += header->orientation != 1;
        }
    }
    EXPECT_GT(turned, 100);
    for (const char* none : {"", "\x89PNG", "\xff\xd8", "GIF89a"}) EXPECT_FALSE(image_header(none)) << none;
}

TEST(WholeImageHeader, IsNoneWhereverAFileIsCut) {
    const ScratchFolder folder;
    for (const char* name : files) {
        const std::string whole = contents_of(reference(name));
        for (std::size_t length = 0; length < whole.size(); length += length < whole.size() - 40 ? 17 : 1)
            EXPECT_FALSE(whole_image_header(folder.write("cut", whole.substr(0, length))))
                << name << " with " << length << " bytes of " << whole.size();
        EXPECT_TRUE(whole_image_header(folder.write("cut", whole))) << name;
        EXPECT_FALSE(whole_image_header(folder.write("longer", whole + "x"))) << name;
    }
}

TEST(WholeImageHeader, IsNoneOfWhatIsNoImage) {
    const ScratchFolder folder;
    EXPECT_FALSE(whole_image_header(folder.path() / "missing.png"));
    EXPECT_FALSE(whole_image_header(folder.path()));
    EXPECT_FALSE(whole_image_header(folder.write("empty.png", "")));
    EXPECT_FALSE(whole_image_header(reference("small.gif")));
    std::string huge = contents_of(reference("rgb.png"));
    huge.replace(16, 8, std::string("\x7f\xff\xff\xff\x7f\xff\xff\xff", 8));
    EXPECT_FALSE(whole_image_header(folder.write("huge.png", huge)));
}

// Cameras put a small picture of up to 64 KB before the size.
TEST(WholeImageHeader, FindsTheSizeBehindLongSegments) {
    const ScratchFolder folder;
    std::string jpeg = contents_of(reference("turned_6.jpg"));
    const std::string segment = std::string("\xff\xe2\xff\xff") + std::string(65533, '\xd9');
    jpeg.insert(2, segment + segment);
    const auto header = whole_image_header(folder.write("long.jpg", jpeg));
    ASSERT_TRUE(header);
    EXPECT_EQ(header->size(Orientation::stored), std::pair(int64_t{14}, int64_t{21}));
    EXPECT_EQ(header->orientation, 6);
    EXPECT_EQ(decode_image(jpeg, "long.jpg").height, 21);
}

}  // namespace image_header_test
}  // namespace headroom::data
