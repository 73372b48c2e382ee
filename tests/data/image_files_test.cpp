// Images in folders: which files there are, with which label or mask, and what is left out.
#include <headroom/data/data_loader.hpp>
#include <headroom/data/image_dataset.hpp>
#include <headroom/data/image_files.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/pictures.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace image_files_test {

using test::reference;
using test::ScratchFolder;
using test::throws;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ImageFolder, HasAClassForEachFolderInTheOrderOfNames) {
    const ScratchFolder folder;
    const auto add = [&](const char* file, const char* from) {
        std::filesystem::create_directories((folder.path() / file).parent_path());
        std::filesystem::copy_file(reference(from), folder.path() / file);
    };
    add("zebra/1.png", "rgb.png"), add("zebra/deeper/0.JPG", "baseline.jpg"), add("ant/b.jpeg", "cmyk.jpg");
    folder.write("ant/notes.txt", "none"), folder.write("ant/.hidden.png", "none"), folder.write("readme.png", "none");
    const ImageFolder images(folder.path());
    EXPECT_EQ(images.classes(), (std::vector<std::string>{"ant", "zebra"}));
    ASSERT_EQ(images.size(), 3);
    EXPECT_EQ(images.label(0), 0);
    EXPECT_EQ(images.label(1), 1);
    EXPECT_EQ(images.load(2).label, 1);
    EXPECT_EQ(images.name(2), (folder.path() / "zebra" / "deeper" / "0.JPG").native());
    EXPECT_EQ(images.load(1).image, test::read_ppm("rgb.ppm"));
    const ImageFolder some(folder.path(), {.classes = {"bee", "zebra", "ant"}, .colors = Colors::grey});
    EXPECT_EQ(some.label(0), 2);
    EXPECT_EQ(some.load(0).image.channels, 1);
}

/// A folder with folders of its own in which there are images of some names.
class Folders {
  public:
    Folders(std::initializer_list<const char*> images) {
        for (const char* image : images) add(image);
    }
    void add(const std::string& image) const {
        std::filesystem::create_directories((path() / image).parent_path());
        std::filesystem::copy_file(reference("rgb.png"), path() / image);
    }
    void link(const std::string& from, const std::filesystem::path& to) const {
        std::filesystem::create_directory_symlink(to, path() / from);
    }
    const std::filesystem::path& path() const { return folder_.path(); }
    /// Names below the folder.
    std::vector<std::string> names(const ImageSource& source) const {
        std::vector<std::string> names;
        for (int64_t i = 0; i < source.size(); ++i)
            names.push_back(std::filesystem::path(source.name(i)).lexically_relative(path()).native());
        return names;
    }

  private:
    ScratchFolder folder_;
};

TEST(ImageFolder, LeavesHiddenFoldersOutAndSaysSo) {
    const Folders folder{
        "cat/0.png", "cat/.ipynb_checkpoints/0-checkpoint.png", "cat/deep/.cache/1.png", "cat/deep/1.png", ".git/2.png",
        "dog/2.png"};
    const ImageFolder images(folder.path());
    EXPECT_THAT(folder.names(images), ElementsAre("cat/0.png", "cat/deep/1.png", "dog/2.png"));
    EXPECT_THAT(images.left_out(),
                ElementsAre(HasSubstr(".git, a hidden folder"), HasSubstr("cat/.ipynb_checkpoints, a hidden folder"),
                            HasSubstr("cat/deep/.cache, a hidden folder")));
    const MaskedImages pairs(folder.path() / "cat", folder.path() / "cat", 255);
    EXPECT_EQ(pairs.size(), 2);
    EXPECT_EQ(pairs.left_out().size(), 2u);
}

TEST(ImageFolder, LooksIntoEachFolderOnceWhereLinksLeadBack) {
    const Folders folder{"cat/0.png", "cat/deep/1.png", "dog/2.png"}, outside{"more/3.png"};
    folder.link("cat/a", folder.path() / "cat");  // itself
    folder.link("cat/deep/up", "..");
    folder.link("cat/root", folder.path());  // in which the class is
    folder.link("cat/again", folder.path() / "cat/deep");
    folder.link("cat/out", outside.path());
    folder.link("cat/same", outside.path());
    outside.link("back", folder.path() / "cat");
    folder.link("loop", ".");  // as a class
    const ImageFolder images(folder.path());
    EXPECT_THAT(folder.names(images), ElementsAre("cat/0.png", "cat/deep/1.png", "cat/out/more/3.png", "dog/2.png"));
    EXPECT_THAT(images.classes(), ElementsAre("cat", "dog"));
    std::vector<std::string> left_out;
    for (const std::string& line : images.left_out()) {
        EXPECT_THAT(line, HasSubstr(", a link to a folder that is looked into already"));
        left_out.push_back(
            std::filesystem::path(line.substr(0, line.find(','))).lexically_relative(folder.path()).native());
    }
    EXPECT_THAT(left_out,
                ElementsAre("loop", "cat/a", "cat/again", "cat/deep/up", "cat/root", "cat/same", "cat/out/back"));
}

/// The order decides which images a seed draws, and what it holds out.
TEST(ImageFolder, ImagesBehindLinksAreInTheOrderOfTheirNames) {
    const Folders folder{"cat/0.png", "cat/b/1.png", "cat/c.png"}, outside{"more/3.png", "4.png"};
    folder.link("cat/a", outside.path());
    folder.link("cat/b/2", folder.path() / "cat" / "a" / "more");
    const std::vector<std::string> names{"cat/0.png", "cat/a/4.png", "cat/a/more/3.png", "cat/b/1.png", "cat/c.png"};
    EXPECT_EQ(folder.names(ImageFolder(folder.path())), names);
    EXPECT_EQ(folder.names(MaskedImages(folder.path() / "cat", folder.path() / "cat", 255)), names);
}

TEST(ImageFolder, SaysWhatIsMissing) {
    const ScratchFolder folder;
    const auto path = folder.path();
    EXPECT_THAT([&] { ImageFolder(path / "none"); }, throws<FileError>("none: no such folder"));
    EXPECT_THAT([&] { ImageFolder{path}; },
                throws<FileError>("has no folder in it; put the images of each class into one"));
    std::filesystem::create_directory(path / "empty");
    EXPECT_THAT([&] { ImageFolder{path}; }, throws<FileError>("empty: has no PNG or JPEG in it"));
    std::filesystem::copy_file(reference("small.gif"), path / "empty" / "a.gif");
    EXPECT_THAT([&] { ImageFolder{path}; }, throws<FileError>("empty/a.gif: only PNG and JPEG are read; convert it"));
    std::filesystem::rename(path / "empty" / "a.gif", path / "empty" / "a.png");
    EXPECT_THAT(
        [&] {
            ImageFolder(path, {.classes = {"cat", "dog"}});
        },
        throws<FileError>("empty: is none of the 2 classes (cat, ...)"));
    const auto images = std::make_shared<ImageFolder>(path);
    const ImageDataset dataset(images, {});
    DataLoader loader(dataset, Sampler::sequential(1, 1));
    EXPECT_THAT([&] { loader.next(); }, throws<FileError>("empty/a.png: is neither PNG nor JPEG"));
}

class MaskedImagesTest : public ::testing::Test {
  protected:
    MaskedImagesTest() {
        for (const char* name : {"images", "masks"}) std::filesystem::create_directory(folder_.path() / name);
        std::filesystem::copy_file(reference("baseline.jpg"), images() / "a.jpg");
    }
    std::filesystem::path images() const { return folder_.path() / "images"; }
    std::filesystem::path masks() const { return folder_.path() / "masks"; }

    ScratchFolder folder_;
};

TEST_F(MaskedImagesTest, HaveTheMaskOfTheSameName) {
    Image mask(30, 40, 1, 2);
    write_png(masks() / "a.png", mask);
    const MaskedImages source(images(), masks(), 3);
    ASSERT_EQ(source.size(), 1);
    EXPECT_EQ(source.load(0).mask, mask);
    EXPECT_EQ(source.load(0).image, test::read_ppm("baseline.ppm"));
    *mask.at(29, 3) = 3;
    write_png(masks() / "a.png", mask);
    EXPECT_THAT([&] { source.load(0); },
                throws<FileError>(
                    "masks/a.png: the value 3 in row 29, column 3 is not the value of any of the 3 classes (0, 1, 2)"));
}

TEST_F(MaskedImagesTest, HaveEndingsInUpperOrLowerCase) {
    std::filesystem::rename(images() / "a.jpg", images() / "a.JPG");
    for (const char* name : {"a.PNG", "a.Png", "a.png"}) {
        write_png(masks() / name, Image(30, 40, 1, 2));
        const MaskedImages source(images(), masks(), 3);
        ASSERT_EQ(source.size(), 1);
        EXPECT_EQ(source.mask(0), masks() / name);
        EXPECT_EQ(source.load(0).mask, Image(30, 40, 1, 2));
        std::filesystem::remove(masks() / name);
    }
    for (const char* name : {"a.tif", "a.jpg"}) {
        folder_.write(std::string("masks/") + name, "x");
        EXPECT_THAT(
            [&] { MaskedImages(images(), masks(), 3); },
            throws<FileError>("images/a.JPG: its mask", name, "is not a PNG, the only format of masks that is read"));
        std::filesystem::remove(masks() / name);
    }
}

TEST_F(MaskedImagesTest, AreInFoldersOfTheSameNames) {
    for (const auto& folder : {images(), masks()}) std::filesystem::create_directory(folder / "b");
    std::filesystem::copy_file(images() / "a.jpg", images() / "b" / "a.jpg");
    write_png(masks() / "a.png", Image(30, 40, 1, 1));
    EXPECT_THAT([&] { MaskedImages(images(), masks(), 3); },
                throws<FileError>("b/a.jpg: has no mask", "masks/b/a.png"));
    write_png(masks() / "b" / "a.png", Image(30, 40, 1, 2));
    const MaskedImages source(images() / ".", masks(), 3);
    ASSERT_EQ(source.size(), 2);
    EXPECT_EQ(source.load(0).mask, Image(30, 40, 1, 1));
    EXPECT_EQ(source.load(1).mask, Image(30, 40, 1, 2));
}

TEST_F(MaskedImagesTest, MayHaveValuesOfTheirOwn) {
    Image mask(30, 40, 1, 255), ids(30, 40, 1, 1);
    *mask.at(0, 1) = 7, *ids.at(0, 1) = 0;
    *mask.at(0, 2) = 0, *ids.at(0, 2) = kIgnoredClass;
    write_png(masks() / "a_mask.png", mask);
    const MaskedImages source(images(), masks(), 2, {.mask_suffix = "_mask", .ignored_value = 0, .values = {7, 255}});
    EXPECT_EQ(source.load(0).mask, ids);
}

TEST_F(MaskedImagesTest, SayWhatDoesNotFit) {
    EXPECT_THAT([&] { MaskedImages(images(), masks(), 2); },
                throws<FileError>("images/a.jpg: has no mask", "masks/a.png"));
    EXPECT_THAT([&] { MaskedImages(masks(), masks(), 2); }, throws<FileError>("masks: has no PNG or JPEG in it"));
    EXPECT_THAT([&] { MaskedImages(images(), masks() / "none", 2); }, throws<FileError>("none: no such folder"));
    EXPECT_THAT([&] { MaskedImages(images(), masks(), 256); }, throws<Error>("256 classes"));
    EXPECT_THAT([&] { MaskedImages(images(), masks(), 2, {.values = {1}}); },
                throws<Error>("got 2 classes and 1 values"));
    write_png(masks() / "a.png", Image(40, 30, 1));
    EXPECT_THAT([&] { MaskedImages(images(), masks(), 2).load(0); },
                throws<BadImage>("masks/a.png: is 30 wide, 40 high, but its image", "a.jpg is 40 wide, 30 high"));
}

}  // namespace image_files_test
}  // namespace headroom::data
