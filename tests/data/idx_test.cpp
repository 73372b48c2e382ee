#include <numeric>
#include <zlib.h>

#include <headroom/data/idx.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace idx_test {

using test::data_file;
using test::ScratchFolder;
using test::throws;

std::string header(std::vector<uint32_t> shape, uint8_t type = 8) {
    std::string bytes{0, 0, static_cast<char>(type), static_cast<char>(shape.size())};
    for (const uint32_t extent : shape)
        for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(extent >> shift));
    return bytes;
}

std::string counted(std::size_t count) {
    std::string bytes(count, '\0');
    std::iota(bytes.begin(), bytes.end(), '\0');
    return bytes;
}

std::string gzip(const std::string& contents) {
    const ScratchFolder folder;
    const auto path = folder.path() / "packed.gz";
    const gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, contents.data(), static_cast<unsigned>(contents.size()));
    gzclose(file);
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(Idx, IsReadPlainAndGzipped) {
    const ScratchFolder folder;
    const std::string plain = header({2, 3, 4}) + counted(24);
    for (const auto& contents : {plain, gzip(plain)}) {
        const IdxArray array = read_idx(folder.write("file", contents));
        EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3, 4}));
        EXPECT_EQ(std::string(array.values.begin(), array.values.end()), counted(24));
    }
}

TEST(Idx, LargerThanOneStepOfTheReaderIsWhole) {
    const ScratchFolder folder;
    const std::string values = counted(5'000'001);
    const IdxArray array = read_idx(folder.write("file", gzip(header({5'000'001}) + values)));
    EXPECT_TRUE(std::equal(array.values.begin(), array.values.end(), values.begin(), values.end(),
                           [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }));
}

TEST(Idx, CutAnywhereIsRefused) {
    const ScratchFolder folder;
    const std::string plain = header({2, 3, 4}) + counted(24);
    for (const auto& contents : {plain, gzip(plain)})
        for (std::size_t length = 0; length < contents.size(); ++length)
            EXPECT_THAT([&] { read_idx(folder.write("cut", contents.substr(0, length))); }, throws<FileError>("cut: "))
                << "after " << length << " bytes of " << contents.size();
}

TEST(Idx, SaysWhereItEnds) {
    const ScratchFolder folder;
    const std::string plain = header({2, 3, 4}) + counted(24);
    const auto read = [&](const std::string& contents) {
        return [&, contents] { read_idx(folder.write("f", contents)); };
    };
    EXPECT_THAT(read(plain.substr(0, 3)), throws<FileError>("within the 4 bytes"));
    EXPECT_THAT(read(plain.substr(0, 10)), throws<FileError>("within dimension 1 of 3, at byte 8"));
    EXPECT_THAT(read(plain.substr(0, 30)), throws<FileError>("after 14 of the 24 values", "[2, 3, 4]"));
    EXPECT_THAT(read(plain + "x"), throws<FileError>("goes on after the 24 values"));
    EXPECT_THAT(read(gzip(plain + "x")), throws<FileError>("goes on after the 24 values"));
    const std::string packed = gzip(plain);
    EXPECT_THAT(read(packed.substr(0, packed.size() - 6)), throws<FileError>("damaged gzip", "ends early"));
}

TEST(Idx, DamagedGzipIsRefusedOrReadsTheSame) {
    const ScratchFolder folder;
    const std::string plain = header({2, 3, 4}) + counted(24);
    const std::string packed = gzip(plain);
    int refused = 0;
    for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) {
        std::string damaged = packed;
        damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
        try {  // some bits of gzip's header mean nothing
            const IdxArray array = read_idx(folder.write("damaged", damaged));
            EXPECT_EQ(std::string(array.values.begin(), array.values.end()), counted(24)) << "bit " << bit;
        } catch (const FileError&) {
            ++refused;
        }
    }
    EXPECT_GT(refused, static_cast<int>(8 * (packed.size() - 10)) - 8);
}

TEST(Idx, ChecksumsAreCompared) {
    const ScratchFolder folder;
    std::string packed = gzip(header({2, 3, 4}) + counted(24));
    packed[packed.size() - 8] = static_cast<char>(packed[packed.size() - 8] ^ 1);
    EXPECT_THAT([&] { read_idx(folder.write("f", packed)); },
                throws<FileError>("damaged gzip", "incorrect data check"));
}

TEST(Idx, LyingHeadersAreRefusedWithoutTakingTheMemory) {
    const ScratchFolder folder;
    const auto read = [&](const std::string& contents) {
        return [&, contents] { read_idx(folder.write("f", contents)); };
    };
    EXPECT_THAT(read(header({0xffffffff, 0x7fffffff}) + "abc"), throws<FileError>("after 3 of the"));
    EXPECT_THAT(read(header({0xffffffff, 0xffffffff, 28}) + "abc"), throws<FileError>("overflows"));
    EXPECT_THAT(read(gzip(header({0xffffffff}) + "abc")), throws<FileError>("after 3 of the 4294967295"));
    EXPECT_THAT(read(header({5, 0, 5})), throws<FileError>("no values", "[5, 0, 5]"));
    EXPECT_THAT(read(header({0, 0xffffffff, 0xffffffff, 0xffffffff})), throws<FileError>("no values"));
    EXPECT_THAT(read(header({})), throws<FileError>("rank 0"));
    EXPECT_THAT(read(header({1, 1, 1, 1, 1, 1, 1}) + "a"), throws<FileError>("rank 7"));
    EXPECT_THAT(read(header({1}, 0x0d) + "abcd"), throws<FileError>("type 0x0d at byte 2"));
    EXPECT_THAT(read("PNG, perhaps"), throws<FileError>("is not an IDX file", "0x504e472c"));
}

TEST(Idx, ThatCantBeReadIsRefused) {
    const ScratchFolder folder;
    EXPECT_THAT([&] { read_idx(folder.path() / "none.gz"); }, throws<FileError>("none.gz", "no such file"));
    EXPECT_THAT([&] { read_idx(folder.path()); }, throws<FileError>("folder"));
    EXPECT_THAT([&] { read_idx(folder.write("empty", "")); }, throws<FileError>("is empty"));
}

TEST(IdxImages, NeedThreeDimensions) {
    const ScratchFolder folder;
    const IdxImages images = read_idx_images(folder.write("images", header({2, 3, 4}) + counted(24)));
    EXPECT_EQ(images.count, 2);
    EXPECT_EQ(images.rows, 3);
    EXPECT_EQ(images.columns, 4);
    EXPECT_EQ(images.pixels[23], 23);
    EXPECT_THAT([&] { read_idx_images(folder.write("labels", header({4}) + counted(4))); },
                throws<FileError>("labels", "rank 1", "images"));
}

TEST(IdxLabels, AreBelowTheNumberOfClasses) {
    const ScratchFolder folder;
    const auto path = folder.write("labels", header({4}) + counted(4));
    EXPECT_EQ(read_idx_labels(path, 4), (std::vector<uint8_t>{0, 1, 2, 3}));
    EXPECT_THAT([&] { read_idx_labels(path, 3); }, throws<FileError>("label 3 of sample 3", "classes, 3"));
    EXPECT_THAT(
        [&] {
            read_idx_labels(folder.write("f", header({2, 2}) + counted(4)), 10);
        },
        throws<FileError>("rank 2"));
}

TEST(LabelledImages, AreFoundInTheirFolder) {
    const ScratchFolder folder;
    EXPECT_THAT([&] { read_labelled_images(folder.path(), "train", 10); },
                throws<FileError>("train-images-idx3-ubyte", ".gz"));
    folder.write("train-images-idx3-ubyte", header({3, 1, 2}) + counted(6));
    EXPECT_THAT([&] { read_labelled_images(folder.path(), "train", 10); },
                throws<FileError>("train-labels-idx1-ubyte"));
    folder.write("train-labels-idx1-ubyte.gz", gzip(header({3}) + counted(3)));
    EXPECT_EQ(read_labelled_images(folder.path(), "train", 10).labels.size(), 3u);
    folder.write("train-labels-idx1-ubyte.gz", gzip(header({4}) + counted(4)));
    EXPECT_THAT([&] { read_labelled_images(folder.path(), "train", 10); }, throws<FileError>("3 images, but 4 labels"));
    EXPECT_THAT([&] { read_labelled_images(folder.path() / "none", "train", 10); }, throws<FileError>("none"));
}

TEST(LabelledImages, AreFoundByAllNamesThatTheyComeWith) {
    for (const char* separator : {"-", "."})
        for (const bool packed : {false, true}) {
            const ScratchFolder folder;
            EXPECT_FALSE(has_labelled_images(folder.path(), "t10k"));
            const auto write = [&](const std::string& name, const std::string& contents) {
                folder.write("t10k-" + name + (packed ? "-ubyte.gz" : "-ubyte"), packed ? gzip(contents) : contents);
            };
            write(std::string("labels") + separator + "idx1", header({3}) + counted(3));
            EXPECT_TRUE(has_labelled_images(folder.path(), "t10k"));
            EXPECT_FALSE(has_labelled_images(folder.path(), "train"));
            write(std::string("images") + separator + "idx3", header({3, 1, 2}) + counted(6));
            EXPECT_EQ(read_labelled_images(folder.path(), "t10k", 10).images.pixels.size(), 6u);
        }
    const ScratchFolder folder;  // some archives have folders of the files' names
    std::filesystem::create_directory(folder.path() / "t10k-labels-idx1-ubyte");
    EXPECT_FALSE(has_labelled_images(folder.path(), "t10k"));
}

TEST(LabelledImages, OfMnistAreReadAsTheyCome) {
    const auto path = data_file("t10k-images-idx3-ubyte.gz");
    if (path.empty()) GTEST_SKIP() << "t10k-images-idx3-ubyte.gz is not there; set HEADROOM_DATA to its folder";
    const LabelledImages mnist = read_labelled_images(path.parent_path(), "t10k", 10);
    EXPECT_EQ(mnist.images.count, 10'000);
    EXPECT_EQ(mnist.images.rows, 28);
    EXPECT_EQ(mnist.images.columns, 28);
    EXPECT_EQ(mnist.images.pixels.size(), 7'840'000u);
    EXPECT_EQ(std::vector<int>(mnist.labels.begin(), mnist.labels.begin() + 10),
              (std::vector<int>{7, 2, 1, 0, 4, 1, 4, 9, 5, 9}));
}

}  // namespace idx_test
}  // namespace headroom::data
