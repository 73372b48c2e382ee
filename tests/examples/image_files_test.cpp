// What programs that train on image files have in common, and what only train_segmentation asks of masks.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <headroom/data/image_files.hpp>
#include <headroom/examples/cli/images.hpp>
#include <headroom/examples/segmentation/data.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::cli {
namespace image_files_test {

using headroom::test::ScratchFolder;
using headroom::test::throws;
using ::testing::HasSubstr;
using Names = std::set<std::string>;

/// Samples that are names alone.
class Named : public data::ImageSource {
  public:
    Named(std::string folder, std::vector<std::string> names) : folder_(std::move(folder)), names_(std::move(names)) {}
    std::int64_t size() const override { return std::ssize(names_); }
    data::ImageSample load(std::int64_t) const override { return {}; }
    std::string name(std::int64_t index) const override { return folder_ + names_[static_cast<std::size_t>(index)]; }

  private:
    std::string folder_;
    std::vector<std::string> names_;
};

std::vector<std::string> numbered(int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back(fmt::format("{}/{:03}.png", i % 2 == 0 ? "cat" : "dog", i));
    return names;
}

/// The names, below the folder, of those that are held out.
Names held_out(const std::string& prefix, const std::string& folder, const std::vector<std::string>& names,
               std::int64_t count, std::uint64_t seed = 1) {
    const auto [training, validation] = hold_out(std::make_shared<Named>(prefix, names), count, seed, folder);
    Names all, held;
    for (const auto& part : {training, validation})
        for (std::int64_t i = 0; i < part->size(); ++i) all.insert(part->name(i).substr(prefix.size()));
    EXPECT_EQ(all, Names(names.begin(), names.end()));
    for (std::int64_t i = 0; i < validation->size(); ++i) held.insert(validation->name(i).substr(prefix.size()));
    EXPECT_EQ(std::ssize(held), count);
    return held;
}

TEST(HoldOut, LeavesImagesWhereTheyAreWhenOneComesOrGoes) {
    const std::vector<std::string> names = numbered(100);
    const Names whole = held_out("photos/", "photos", names, 20);
    EXPECT_NE(held_out("photos/", "photos", names, 20, 2), whole);
    EXPECT_EQ(held_out("/elsewhere/", "/elsewhere/", names, 20), whole);
    for (const std::size_t gone : {std::size_t{0}, std::size_t{37}, std::size_t{99}}) {
        std::vector<std::string> fewer = names;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(gone));
        Names missing;
        std::ranges::set_difference(whole, held_out("photos/", "photos", fewer, 20),
                                    std::inserter(missing, missing.end()));
        EXPECT_EQ(missing, whole.contains(names[gone]) ? Names{names[gone]} : Names{});
    }
    EXPECT_THAT([&] { hold_out(std::make_shared<Named>("p/", numbered(3)), 3, 1, "p"); },
                throws<Error>("--validation 3: p has 3 images, and none is left to train on"));
}

TEST(LookThrough, RefusesBadImagesOrSkipsThemInTheirPart) {
    const ScratchFolder folder;
    for (const char* part : {"a", "b"}) {
        std::filesystem::create_directories(folder.path() / part / "class");
        for (int i = 0; i < 3; ++i)
            data::write_png(folder.path() / part / "class" / fmt::format("{}.png", i),
                            data::Image(4, 4, 3, static_cast<std::uint8_t>(10 * i)));
    }
    folder.write("a/class/1.png", "no image");
    const auto source = [&](const char* part) {
        return std::make_shared<const data::ImageFolder>(folder.path() / part);
    };
    data::ImageSourcePointer a = source("a"), b = source("b");
    ImageFileFlags flags;
    flags.workers = 0;
    EXPECT_THAT(
        [&] {
            look_through(flags, {&a, &b});
        },
        throws<FileError>("a/class/1.png: is neither PNG nor JPEG",
                          "1 of 6 images can't be used; --skip-bad-images uses others in their place"));
    EXPECT_FALSE(look_through(flags, {&b}));
    flags.skip_bad_images = true;
    const auto skipped = look_through(flags, {&a, &b});
    ASSERT_EQ(skipped().size(), 1u);
    EXPECT_THAT(skipped()[0], HasSubstr("a/class/1.png"));
    EXPECT_EQ(a->load(1).image.pixels[0], 20);
    folder.write("b/class/2.png", "no image");
    EXPECT_EQ(b->load(2).image.pixels[0], 0);
    EXPECT_EQ(skipped().size(), 2u);
    for (int i = 0; i < 3; ++i) folder.write(fmt::format("b/class/{}.png", i), "no image");
    data::ImageSourcePointer none = source("b");
    EXPECT_THAT([&] { look_through(flags, {&none}); }, throws<FileError>("none of 3 images can be used"));
}

/// Images whose sizes differ; the second one has no mask, and the third one can't be read.
class Sizes : public data::ImageSource {
  public:
    std::int64_t size() const override { return 3; }
    data::ImageSample load(std::int64_t index) const override {
        ++loads;
        if (index == 2) throw FileError("the third one");
        data::ImageSample sample{.image = data::Image(4 + index, 5, 3, 7)};
        if (index == 0) sample.mask = data::Image(4, 5, 1, 7);
        return sample;
    }
    mutable int loads = 0;
};

TEST(LoadedOnce, GivesBlankSamplesOfTheSameSizesAndTheSameErrors) {
    const auto source = std::make_shared<const Sizes>();
    const data::ImageSourcePointer once = loaded_once(source);
    for (std::int64_t index = 0; index < 2; ++index) {
        EXPECT_EQ(once->load(index).image.pixels[0], 7);
        const data::ImageSample blank = once->load(index);
        EXPECT_EQ(blank.image, data::Image(4 + index, 5, 3));
        EXPECT_EQ(blank.mask, index == 0 ? data::Image(4, 5, 1) : data::Image());
    }
    EXPECT_EQ(source->loads, 2);
    for (int i = 0; i < 2; ++i) EXPECT_THAT([&] { once->load(2); }, throws<FileError>("the third one"));
    EXPECT_EQ(once->size(), 3);
    EXPECT_EQ(once->name(1), source->name(1));
}

}  // namespace image_files_test
}  // namespace headroom::cli

namespace headroom::segmentation {
namespace image_files_test {

using headroom::test::ScratchFolder;
using headroom::test::throws;
using ::testing::HasSubstr;

TEST(MaskValues, AreAListOfDifferentBytes) {
    EXPECT_EQ(mask_values_problem("0,255"), "");
    EXPECT_EQ(parse_mask_values("7,0,128"), (std::vector<std::uint8_t>{7, 0, 128}));
    for (const char* bad : {"", ",", "0,", "0,256", "-1,0", "0 255", "0,1e2", "a,b", "0,0000", "1.0,2"})
        EXPECT_THAT(mask_values_problem(bad), HasSubstr("is not a list of values from 0 to 255")) << bad;
    EXPECT_THAT(mask_values_problem("0,7,0"), HasSubstr("has 0 twice"));
    EXPECT_THAT(mask_values_problem("255"), HasSubstr("is one class"));
}

TEST(MaskValues, AreFoundWhereTheyAreBlackAndWhite) {
    const ScratchFolder folder;
    DataFlags flags;
    flags.images = folder.path() / "images", flags.masks = folder.path() / "masks";
    for (const auto& name : {flags.images, flags.masks}) std::filesystem::create_directory(name);
    flags.classes = 3;
    // The values stand in one file of many, which is the largest.
    const auto values = [&](const std::vector<std::uint8_t>& in_one, std::int64_t ignore = -1) {
        for (int i = 0; i < 50; ++i) {
            data::Image mask(8, 8, 1);
            if (i == 41) std::ranges::copy(in_one, mask.pixels.begin());
            data::write_png(flags.images + fmt::format("/{}.png", i), data::Image(8, 8, 3));
            data::write_png(flags.masks + fmt::format("/{}.png", i), mask);
        }
        flags.ignore = ignore;
        return find_mask_values(flags);
    };
    EXPECT_EQ(values({0, 255}), "0,255");
    EXPECT_EQ(values({0, 1, 2}), "");
    EXPECT_EQ(values({0}), "");
    EXPECT_EQ(values({1, 255}, 255), "");
    EXPECT_EQ(values({255, 255}, 255), "");
    EXPECT_EQ(values({255, 7}, 7), "0,255");
    EXPECT_THAT(
        [&] {
            values({0, 128, 255});
        },
        throws<FileError>("41.png: masks have the values 0,128,255, but 3 classes are 0 to 2",
                          "--mask-values 0,128,255", "--ignore 255"));
    EXPECT_THAT([&] { values({0, 1, 2, 3}); }, throws<FileError>("the values 0,1,2,3, but 3 classes"));
    EXPECT_THAT([&] { values({1, 2, 3, 4, 5, 6, 7, 8, 9}); }, throws<FileError>("0,1,2,3,4,5,6,7,..., but"));
    std::filesystem::resize_file(flags.masks + "/41.png", 60);
    EXPECT_EQ(find_mask_values(flags), "");
}

}  // namespace image_files_test
}  // namespace headroom::segmentation
