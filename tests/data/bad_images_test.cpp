#include <algorithm>

#include <fmt/format.h>
#include <headroom/data/bad_images.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/data/image_dataset.hpp>
#include <headroom/data/image_files.hpp>
#include <headroom/tests/data/pictures.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace bad_images_test {

using test::contents_of;
using test::numbered_image;
using test::reference;
using test::ScratchFolder;
using test::throws;

class BadImages : public ::testing::Test {
  protected:
    BadImages() { std::filesystem::create_directory(folder_.path() / "a"); }

    void add(const std::string& name, const std::string& contents) const { folder_.write("a/" + name, contents); }
    /// So many, named by two digits.
    void add_whole(int count) const {
        for (int i = 0; i < count; ++i) {
            Image image = numbered_image(6, 5, 3);
            image.pixels[0] = static_cast<uint8_t>(i);
            write_png(folder_.path() / "a" / fmt::format("{:02}.png", i), image);
        }
    }
    void cut(const std::string& name) const {
        std::filesystem::resize_file(folder_.path() / "a" / name,
                                     std::filesystem::file_size(folder_.path() / "a" / name) - 5);
    }
    /// Whole at its ends, which is all that is looked at before.
    void damage_inside(const std::string& name) const {
        std::string bytes = contents_of(folder_.path() / "a" / name);
        bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
        add(name, bytes);
    }
    ImageSourcePointer images() const { return std::make_shared<ImageFolder>(folder_.path()); }
    static int label_of(const ImageSample& sample) { return sample.image.pixels[0]; }

    ScratchFolder folder_;
};

TEST_F(BadImages, AreFoundWhereTheyAreCutOrMissingOrNoImages) {
    add_whole(9);
    cut("03.png");
    add("05.png", "no image");
    add("07.png", "");
    add("08.png", contents_of(folder_.path() / "a" / "08.png") + "trailing bytes, which Pillow takes as well");
    damage_inside("06.png");
    const ImageSourcePointer source = images();
    std::filesystem::remove(folder_.path() / "a" / "02.png");
    for (const int threads : {1, 3}) {
        const std::vector<BadSample> bad = find_bad_images(*source, threads);
        ASSERT_EQ(bad.size(), 4u);
        const std::vector<std::pair<int64_t, std::string>> expected = {{2, "02.png: no such file"},
                                                                       {3, "03.png: damaged PNG"},
                                                                       {5, "05.png: is neither PNG"},
                                                                       {7, "07.png: is empty"}};
        for (std::size_t i = 0; i < bad.size(); ++i) {
            EXPECT_EQ(bad[i].index, expected[i].first);
            EXPECT_THAT(bad[i].what, ::testing::HasSubstr(expected[i].second));
        }
    }
    EXPECT_THAT([&] { find_bad_images(*source, 0); }, throws<Error>("1 worker"));
}

TEST_F(BadImages, OfManyAreFoundInTheirOrder) {
    add_whole(99);
    for (const char* name : {"10.png", "63.png", "64.png", "98.png"}) cut(name);
    std::vector<int64_t> places(1000);
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i) % 99;
    std::vector<int64_t> found, looked;
    const auto watch = [&](int64_t done, int64_t all) {
        EXPECT_EQ(all, 1000);
        looked.push_back(done);
    };
    for (const BadSample& bad : find_bad_images(*subset(images(), places), 4, watch)) found.push_back(bad.index);
    EXPECT_TRUE(std::ranges::is_sorted(looked));
    EXPECT_EQ(looked.size(), 16u);
    EXPECT_EQ(looked.back(), 1000);
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < 1000; ++i)
        for (const int64_t bad : {10, 63, 64, 98})
            if (i % 99 == bad) expected.push_back(i);
    EXPECT_EQ(found, expected);
}

TEST_F(BadImages, GiveTheirPlacesToTheNextOnes) {
    add_whole(5);
    cut("01.png");
    damage_inside("02.png");
    cut("04.png");
    const SkippingImages usable(images());
    EXPECT_EQ(usable.size(), 5);
    EXPECT_TRUE(usable.skipped().empty());
    std::vector<int> labels;
    for (int64_t i = 0; i < 5; ++i) labels.push_back(label_of(usable.load(i)));
    EXPECT_EQ(labels, (std::vector<int>{0, 3, 3, 3, 0}));
    std::vector<int64_t> skipped;
    for (const BadSample& bad : usable.skipped()) skipped.push_back(bad.index);
    EXPECT_EQ(skipped, (std::vector<int64_t>{1, 2, 4}));
    EXPECT_THAT(usable.skipped()[1].what, ::testing::HasSubstr("02.png: damaged PNG"));
    const SkippingImages told(images(), find_bad_images(*images(), 1));
    EXPECT_EQ(told.skipped().size(), 2u);
    EXPECT_EQ(label_of(told.load(1)), 3);
    EXPECT_EQ(told.skipped().size(), 3u);
    cut("00.png"), cut("03.png");
    EXPECT_THAT([&] { usable.load(2); }, throws<FileError>("none of 5 images can be used: ", "00.png"));
}

TEST_F(BadImages, ChangeNoBatchWhateverTheThreadsAndTheBeginning) {
    add_whole(20);
    for (const char* name : {"04.png", "05.png", "13.png"}) damage_inside(name);
    const auto batches = [&](int workers, int64_t first) {
        const ImageDataset dataset(std::make_shared<SkippingImages>(images()),
                                   {.transforms = {RandomCrop{.height = 4, .width = 4}}, .seed = 3});
        DataLoader loader(dataset, Sampler::shuffled(20, 4, 1), {.workers = workers});
        DataLoaderState state = loader.state();
        state.batch = first;
        loader.restore(state);
        std::vector<std::vector<float>> all;
        while (const ImageBatch* batch = loader.next()) all.push_back(batch->images);
        return all;
    };
    const auto whole = batches(0, 0);
    ASSERT_EQ(whole.size(), 5u);
    EXPECT_EQ(batches(3, 0), whole);
    EXPECT_EQ(batches(2, 2), std::vector(whole.begin() + 2, whole.end()));
}

// A mask of a value that is no class is a mistake in the settings, which no skipping may hide.
TEST_F(BadImages, AreNotThoseWithOtherClasses) {
    const auto masks = folder_.path() / "masks";
    std::filesystem::create_directory(masks);
    add_whole(2);
    write_png(masks / "00.png", Image(6, 5, 1, 1));
    write_png(masks / "01.png", Image(6, 5, 1, 7));
    const auto source = std::make_shared<MaskedImages>(folder_.path() / "a", masks, 2);
    EXPECT_TRUE(find_bad_images(*source, 1).empty());
    EXPECT_THAT([&] { SkippingImages(source).load(1); }, throws<FileError>("the value 7 in row 0"));
    write_png(masks / "01.png", Image(5, 6, 1, 1));
    ASSERT_EQ(find_bad_images(*source, 1).size(), 1u);
    EXPECT_THAT(find_bad_images(*source, 1)[0].what, ::testing::HasSubstr("01.png: is 6 wide, 5 high, but its image"));
    EXPECT_EQ(SkippingImages(source).load(1).mask.height, 6);
}

/// They are whole, and of their image's size.
TEST_F(BadImages, AreMasksThatAreNoIds) {
    const auto masks = folder_.path() / "masks";
    std::filesystem::create_directory(masks);
    for (const auto& [name, what] : {std::pair{"rgb.png", "this one has colours"},
                                     {"sixteen_grey.png", "this one has 16 bits"},
                                     {"grey_alpha.png", "this one has transparency"}}) {
        add("image.png", contents_of(reference(name)));
        folder_.write("masks/image.png", contents_of(reference(name)));
        const std::vector<BadSample> bad = find_bad_images(MaskedImages(folder_.path() / "a", masks, 255), 1);
        ASSERT_EQ(bad.size(), 1u) << name;
        EXPECT_THAT(bad[0].what, ::testing::HasSubstr(what));
    }
}

TEST_F(BadImages, AreMasksThatFitOnlyWhatIsStored) {
    const auto masks = folder_.path() / "masks";
    std::filesystem::create_directory(masks);
    add("turned.jpg", contents_of(reference("turned_6.jpg")));
    write_png(masks / "turned.png", Image(21, 14, 1));
    EXPECT_TRUE(find_bad_images(MaskedImages(folder_.path() / "a", masks, 2), 1).empty());
    write_png(masks / "turned.png", Image(14, 21, 1));
    folder_.write("masks/turned.png", test::with_exif(contents_of(masks / "turned.png"), 6));
    EXPECT_EQ(MaskedImages(folder_.path() / "a", masks, 2).load(0).mask.height, 21);
    write_png(masks / "turned.png", Image(14, 21, 1));
    EXPECT_THAT(find_bad_images(MaskedImages(folder_.path() / "a", masks, 2), 1).at(0).what,
                ::testing::HasSubstr("is 21 wide, 14 high, but its image"));
    EXPECT_THAT([&] { MaskedImages(folder_.path() / "a", masks, 2).load(0); },
                throws<BadImage>("turned.jpg is 14 wide, 21 high, turned as its EXIF data says"));
    const MaskedImages stored(folder_.path() / "a", masks, 2, {.orientation = Orientation::stored});
    EXPECT_TRUE(find_bad_images(stored, 1).empty());
    EXPECT_EQ(stored.load(0).image.height, 14);
}

}  // namespace bad_images_test
}  // namespace headroom::data
