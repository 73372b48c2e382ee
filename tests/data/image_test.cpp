#include <algorithm>
#include <random>

#include <headroom/data/image.hpp>
#include <headroom/data/image_color.hpp>
#include <headroom/data/image_geometry.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/pictures.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace image_test {

using test::contents_of;
using test::numbered_image;
using test::read_ppm;
using test::reference;
using test::ScratchFolder;
using test::throws;

class ImageFiles : public ::testing::TestWithParam<const char*> {};

TEST_P(ImageFiles, HaveThePixelsThatPillowReads) {
    const std::string name = GetParam();
    const Image expected = read_ppm(name.substr(0, name.find('.')) + ".ppm");
    EXPECT_EQ(read_image(reference(name)), expected);
}

TEST_P(ImageFiles, AreGreyWhereThatIsAskedFor) {
    const std::string name = GetParam();
    const Image rgb = read_ppm(name.substr(0, name.find('.')) + ".ppm");
    EXPECT_EQ(read_image(reference(name), Colors::grey), to_grey(rgb));
}

INSTANTIATE_TEST_SUITE_P(OfAllKinds, ImageFiles,
                         ::testing::Values("rgb.png", "palette.png", "grey.png", "bit.png", "rgba.png",
                                           "interlaced.png", "grey_alpha.png", "sixteen.png", "sixteen_grey.png",
                                           "baseline.jpg", "progressive.jpg", "luma.jpg", "cmyk.jpg"),
                         [](const auto& info) {
                             std::string name = info.param;
                             std::replace(name.begin(), name.end(), '.', '_');
                             return name;
                         });

class TurnedImages : public ::testing::TestWithParam<const char*> {};

TEST_P(TurnedImages, AreAsPillowTurnsThem) {
    const std::string name = GetParam();
    const Image stored = read_ppm(name.ends_with("jpg") ? "turned_1.jpg.ppm" : "turned_6.png.ppm");
    EXPECT_EQ(read_image(reference(name)), read_ppm(name + ".ppm"));
    EXPECT_EQ(read_image(reference(name), Colors::grey), to_grey(read_ppm(name + ".ppm")));
    const Image as_stored = read_image(reference(name), Colors::rgb, Orientation::stored);
    EXPECT_EQ(as_stored, name.ends_with("jpg") ? stored : turn(stored, 8));
}

INSTANTIATE_TEST_SUITE_P(OfAllOrientations, TurnedImages,
                         ::testing::Values("turned_1.jpg", "turned_2.jpg", "turned_3.jpg", "turned_4.jpg",
                                           "turned_5.jpg", "turned_6.jpg", "turned_7.jpg", "turned_8.jpg",
                                           "turned_6.png", "turned_7.png"),
                         [](const auto& info) {
                             std::string name = info.param;
                             std::replace(name.begin(), name.end(), '.', '_');
                             return name;
                         });

TEST(ImageFile, IsRefusedWhereverItIsCut) {
    for (const char* name : {"rgb.png", "palette.png", "baseline.jpg", "progressive.jpg", "cmyk.jpg"}) {
        const std::string whole = contents_of(reference(name));
        for (std::size_t length = 4; length < whole.size(); length += 13)
            EXPECT_THAT([&] { decode_image(whole.substr(0, length), "some/file"); },
                        throws<BadImage>("some/file: damaged"))
                << name << " with " << length << " bytes of " << whole.size();
    }
}

// What a change of a byte does, a reader can't always see; that it says or survives it is what counts.
TEST(ImageFile, WithAnyByteChangedIsReadOrRefused) {
    constexpr unsigned seed = 20240607;
    std::mt19937 random(seed);
    for (const char* name :
         {"rgb.png", "palette.png", "sixteen_grey.png", "baseline.jpg", "progressive.jpg", "cmyk.jpg"}) {
        const std::string whole = contents_of(reference(name));
        int refused = 0;
        for (int i = 0; i < 300; ++i) {
            std::string changed = whole;
            // The bytes of the size are left alone: reading millions of pixels takes long.
            const std::size_t at = 40 + random() % (changed.size() - 40);
            changed[at] = static_cast<char>(changed[at] ^ static_cast<char>(1 + random() % 255));
            try {
                decode_image(changed, name);
            } catch (const FileError&) {
                ++refused;
            }
        }
        EXPECT_GT(refused, 0) << name << ", seed " << seed;
    }
}

TEST(ImageFile, OfPngWithAChangedPixelIsRefused) {
    std::string changed = contents_of(reference("rgb.png"));
    changed[changed.size() / 2] = static_cast<char>(~changed[changed.size() / 2]);
    EXPECT_THAT([&] { decode_image(changed, "a.png"); },
                throws<FileError>("a.png: damaged PNG near byte", "get the file again"));
}

TEST(ImageFile, OfAnotherKindIsRefusedByItsFirstBytes) {
    EXPECT_THAT([] { read_image(reference("small.gif")); },
                throws<FileError>("small.gif: is neither PNG nor JPEG: it begins with 0x47494638; convert it"));
    EXPECT_THAT([] { decode_image("", "none"); }, throws<FileError>("none: is neither PNG nor JPEG"));
}

TEST(ImageFile, OfMorePixelsThanAreReadIsRefusedBeforeTheyAreAllocated) {
    std::string huge = contents_of(reference("rgb.png"));
    // IHDR's width and height, and the checksum that belongs to them.
    huge.replace(16, 8, std::string("\x7f\xff\xff\xff\x7f\xff\xff\xff", 8));
    huge.replace(29, 4, std::string("\x9b\xab\x9c\x31", 4));
    EXPECT_THAT([&] { decode_image(huge, "huge.png"); },
                throws<BadImage>("huge.png: claims to be 2147483647 wide, 2147483647 high"));
    std::string hollow = contents_of(reference("rgb.png"));  // 768 MB of pixels
    hollow.replace(16, 8, std::string("\x00\x00\x3e\x80\x00\x00\x3e\x80", 8));
    hollow.replace(29, 4, std::string("\xce\x1c\x48\x89", 4));
    EXPECT_THAT([&] { decode_image(hollow, "hollow.png"); },
                throws<BadImage>("hollow.png: damaged PNG: it claims to be 16000 wide, 16000 high, more than the"));
    std::string wide = contents_of(reference("baseline.jpg"));
    const std::size_t frame = wide.find("\xff\xc0");
    wide.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
    EXPECT_THAT([&] { decode_image(wide, "wide.jpg"); },
                throws<BadImage>("wide.jpg: claims to be 65500 wide, 65500 high"));
}

TEST(Mask, HasTheIdsThatThePngStores) {
    const ScratchFolder folder;
    Image ids(5, 7, 1);
    for (std::size_t i = 0; i < ids.pixels.size(); ++i) ids.pixels[i] = static_cast<uint8_t>(i % 4 == 3 ? 255 : i % 4);
    write_png(folder.path() / "ids.png", ids);
    EXPECT_EQ(read_mask(folder.path() / "ids.png"), ids);
    // A palette of 13 colours in 4 bits, and black and white in one.
    const Image indices = read_mask(reference("palette.png"));
    EXPECT_EQ(*std::max_element(indices.pixels.begin(), indices.pixels.end()), 12);
    const Image bits = read_mask(reference("bit.png"));
    EXPECT_EQ(*std::max_element(bits.pixels.begin(), bits.pixels.end()), 1);
    EXPECT_EQ(bits.channels, 1);
}

TEST(Mask, IsTurnedByExifDataOfItsOwn) {
    const ScratchFolder folder;
    const Image ids = numbered_image(5, 7, 1);
    write_png(folder.path() / "ids.png", ids);
    const std::string turned = test::with_exif(contents_of(folder.path() / "ids.png"), 6);
    EXPECT_EQ(decode_mask(turned, "turned"), turn(ids, 6));
    EXPECT_EQ(decode_mask(turned, "turned", Orientation::stored), ids);
}

TEST(Mask, ThatIsNoMaskIsRefusedByName) {
    const auto refused = [](const char* name, const char* what) {
        EXPECT_THAT([=] { read_mask(reference(name)); }, throws<FileError>(name, what));
    };
    refused("rgb.png", "this one has colours");
    refused("rgba.png", "this one has colours");
    refused("sixteen_grey.png", "this one has 16 bits");
    refused("grey_alpha.png", "this one has transparency");
    refused("luma.jpg", "a mask can't be a JPEG, whose values are not exact; use PNG");
    refused("small.gif", "is neither PNG nor JPEG");
}

TEST(WritePng, WritesWhatIsReadAgain) {
    const ScratchFolder folder;
    for (const int64_t channels : {1, 3}) {
        const Image image = numbered_image(17, 29, channels);
        write_png(folder.path() / "a.png", image);
        EXPECT_EQ(read_image(folder.path() / "a.png", channels == 1 ? Colors::grey : Colors::rgb), image);
    }
}

TEST(WritePng, RefusesWhatItCantWrite) {
    const ScratchFolder folder;
    EXPECT_THAT([&] { write_png(folder.path() / "a.png", Image(3, 4, 2)); },
                throws<ShapeError>("4 wide, 3 high with 2 channels is neither grey nor RGB"));
    EXPECT_THAT([&] { write_png(folder.path() / "a.png", Image()); },
                throws<ShapeError>("0 wide, 0 high with 0 channels"));
    EXPECT_THAT([&] { write_png(folder.path() / "none" / "a.png", Image(3, 4, 3)); },
                throws<FileError>("none/a.png: can't be written: No such file or directory"));
}

TEST(ImageOfBytes, NeedsPixels) {
    EXPECT_THAT([] { Image(0, 4, 3); }, throws<ShapeError>("got 4 wide, 0 high with 3 channels"));
    EXPECT_THAT([] { Image(int64_t{1} << 31, int64_t{1} << 31, 4); },
                throws<ShapeError>("2147483648 wide, 2147483648 high"));
}

}  // namespace image_test
}  // namespace headroom::data
