// Kinds of JPEG: scans that libjpeg warns of though all pixels are right, and kinds that are not read.
#include <algorithm>
#include <utility>
#include <vector>

#include <headroom/data/bad_images.hpp>
#include <headroom/data/image.hpp>
#include <headroom/data/image_files.hpp>
#include <headroom/data/image_header.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/pictures.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace jpeg_test {

using test::contents_of;
using test::read_ppm;
using test::reference;
using test::ScratchFolder;
using test::throws;

/// A JPEG up to its first tables of codes, then each scan with the tables before it, then the end.
struct Scans {
    std::string head;
    std::vector<std::string> scans;

    explicit Scans(const std::string& jpeg) {
        const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(jpeg.at(at)); };
        const auto is_marker = [&](std::size_t at) {
            return byte(at) == 0xff && byte(at + 1) != 0 && (byte(at + 1) < 0xd0 || byte(at + 1) > 0xd7);
        };
        std::size_t at = 2, begin = 0;
        while (byte(at + 1) != 0xd9) {
            const bool tables = byte(at + 1) == 0xc4, scan = byte(at + 1) == 0xda;
            if ((tables || scan) && begin == 0) begin = at;
            if (head.empty() && begin != 0) head = jpeg.substr(0, begin);
            at += 2 + std::size_t{byte(at + 2)} * 256 + byte(at + 3);
            if (!scan) continue;
            while (!is_marker(at)) ++at;
            scans.push_back(jpeg.substr(begin, at - begin));
            begin = 0;
        }
    }

    std::string jpeg() const {
        std::string whole = head;
        for (const std::string& scan : scans) whole += scan;
        return whole + "\xff\xd9";
    }
};

/// With bytes that begin at so many behind a marker exchanged.
std::string changed(std::string jpeg, const char* marker, std::size_t behind, const std::string& bytes) {
    return jpeg.replace(jpeg.find(marker) + behind, bytes.size(), bytes);
}

// Some phones write a scan's header as no sequential JPEG has it: libjpeg warns, and decodes the same pixels.
TEST(Jpeg, OfAnyScanHeaderHasTheSamePixels) {
    const std::string jpeg = contents_of(reference("baseline.jpg"));
    const Image expected = read_ppm("baseline.ppm");
    const ScratchFolder folder;
    std::filesystem::create_directory(folder.path() / "class");
    for (const char* header : {"00003f", "000000", "013f00", "000500", "003f10", "003f01", "3f3fff"}) {
        std::string bytes;
        for (int i = 0; i < 3; ++i) bytes += static_cast<char>(std::stoi(std::string(header + 2 * i, 2), nullptr, 16));
        const std::string other = changed(jpeg, "\xff\xda", 11, bytes);
        EXPECT_EQ(decode_image(other, header), expected) << header;
        folder.write(std::string("class/") + header + ".jpg", other);
    }
    EXPECT_TRUE(find_bad_images(ImageFolder(folder.path()), 1).empty());
}

// Of these, too, libjpeg warns.
TEST(Jpeg, WithOddSegmentsHasTheSamePixels) {
    const std::string jpeg = contents_of(reference("baseline.jpg"));
    const Image expected = read_ppm("baseline.ppm");
    ASSERT_EQ(jpeg.find("JFIF"), 6u);
    EXPECT_EQ(decode_image(changed(jpeg, "JFIF", 5, "\x03"), "of a later version"), expected);
    const auto with = [&](const std::string& more) { return std::string(jpeg).insert(jpeg.find("\xff\xdb"), more); };
    EXPECT_EQ(decode_image(with("junk"), "bytes between segments"), expected);
    const std::string adobe(
        "\xff\xee\0\x0e"
        "Adobe\0\x64\0\0\0\0",
        15);
    EXPECT_EQ(decode_image(with(adobe + "\x03"), "colours of an unknown kind"), expected);
}

TEST(Jpeg, WithDetailsBeforeTheirAveragesHasTheSamePixels) {
    Scans progressive(contents_of(reference("progressive.jpg")));
    ASSERT_EQ(progressive.jpeg(), contents_of(reference("progressive.jpg")));
    ASSERT_GT(progressive.scans.size(), 4u);
    std::swap(progressive.scans[0], progressive.scans[1]);
    EXPECT_EQ(decode_image(progressive.jpeg(), "a.jpg"), read_ppm("progressive.ppm"));
    // Averages that never come are made up.
    const auto lacks = [&](const std::vector<std::size_t>& numbers, const char* what) {
        Scans some = progressive;
        for (const std::size_t number : numbers) some.scans[number].clear();
        EXPECT_THAT([&] { decode_image(some.jpeg(), "a.jpg"); }, throws<BadImage>("a.jpg: damaged JPEG", what));
    };
    const auto has_no_tables = [](const std::string& scan) { return scan.starts_with("\xff\xda"); };  // refines them
    const auto refined = std::ranges::find_if(progressive.scans, has_no_tables) - progressive.scans.begin();
    ASSERT_LT(refined, std::ssize(progressive.scans));
    lacks({1}, "Inconsistent progression");
    lacks({1, static_cast<std::size_t>(refined)}, "a channel has no DC coefficients");
    // Nor are all of them there if the first channel's are: here each of these is 0, whose code is the bit 0.
    std::string& averages = progressive.scans[1];
    const std::size_t at = averages.find("\xff\xda");
    ASSERT_EQ(averages.at(at + 4), 3) << "channels";
    averages = std::string("\xff\xc4\0\x14\0\x01", 6) + std::string(16, '\0') + std::string("\xff\xda\0\x08\x01", 5) +
               averages[at + 5] + std::string("\0\0\0\x01", 4) + std::string(64, '\0');
    lacks({static_cast<std::size_t>(refined)}, "a channel has no DC coefficients");
}

TEST(Jpeg, OfAKindThatIsNotReadIsNamedBeforeTheTraining) {
    const std::string jpeg = contents_of(reference("baseline.jpg"));
    const auto frame = [&](std::size_t behind, const std::string& bytes) {
        return changed(jpeg, "\xff\xc0", behind, bytes);
    };
    std::string two_channels = frame(2, std::string("\0\x0e\x08\0\x1e\0\x28\x02", 8));
    two_channels.erase(jpeg.find("\xff\xc0") + 16, 3);
    const std::vector<std::pair<std::string, std::string>> kinds{
        {frame(4, "\x0c"), "it has 12 bits a sample"},
        {frame(4, "\x10"), "it has 16 bits a sample"},
        {frame(1, "\xc3"), "it is lossless"},
        {frame(1, "\xc5"), "it is hierarchical"},
        {frame(1, "\xde"), "it is hierarchical"},
        {frame(1, "\xf7"), "it is JPEG-LS"},
        {two_channels, "it has 2 channels"},
        {frame(5, std::string("\0\0", 2)), "its height comes after its pixels"},
        {changed(frame(11, "\x31"), "\xff\xc0", 14, "\x21"),
         "its channels are sampled in a ratio that is not a whole number"}};
    const ScratchFolder folder;
    std::filesystem::create_directory(folder.path() / "class");
    folder.write("class/z.jpg", jpeg);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        const auto& [bytes, what] = kinds[i];
        EXPECT_THAT([&] { decode_image(bytes, "a.jpg"); },
                    throws<BadImage>("a.jpg: this kind of JPEG is not supported: " + what + "; save it as PNG"));
        EXPECT_FALSE(whole_image_header(folder.write(fmt::format("class/{}.jpg", i), bytes))) << what;
    }
    const std::vector<BadSample> bad = find_bad_images(ImageFolder(folder.path()), 1);
    ASSERT_EQ(bad.size(), kinds.size());
    for (std::size_t i = 0; i < kinds.size(); ++i) EXPECT_THAT(bad[i].what, ::testing::HasSubstr(kinds[i].second));
}

// Some builds of libjpeg read it.
TEST(Jpeg, CodedArithmeticallyIsReadOrNamed) {
    const std::string jpeg = contents_of(reference("arithmetic.jpg"));
    EXPECT_EQ(image_header(jpeg)->unusual, "it is coded arithmetically");
    EXPECT_FALSE(whole_image_header(reference("arithmetic.jpg")));
    try {
        EXPECT_EQ(decode_image(jpeg, "a.jpg"), read_ppm("baseline.ppm"));
    } catch (const BadImage& error) {
        EXPECT_STREQ(error.what(),
                     "a.jpg: this kind of JPEG is not supported: it is coded arithmetically; save it as PNG or as "
                     "an ordinary JPEG");
    }
}

}  // namespace jpeg_test
}  // namespace headroom::data
