// No sample that a program trains on is one that it validates on, whatever its data are and wherever they come from.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <headroom/data/data_loader.hpp>
#include <headroom/data/image.hpp>
#include <headroom/data/image_sample.hpp>
#include <headroom/examples/cli/windows_task.hpp>
#include <headroom/examples/detection/data.hpp>
#include <headroom/examples/images/data.hpp>
#include <headroom/examples/segmentation/data.hpp>
#include <headroom/examples/text/masked_task.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::cli {
namespace splits_test {

namespace fs = std::filesystem;
using headroom::test::ScratchFolder;

constexpr std::int64_t kValidation = 5, kAll = 17;

/// The pixels of all samples.
std::set<std::vector<std::uint8_t>> pictures(const data::ImageSource& source) {
    std::set<std::vector<std::uint8_t>> all;
    for (std::int64_t i = 0; i < source.size(); ++i) all.insert(source.load(i).image.pixels);
    EXPECT_EQ(std::ssize(all), source.size()) << "some samples are alike";
    return all;
}

/// Of `kAll` samples, which all differ.
template <class Images>
void expect_apart(const Images& images) {
    const auto training = pictures(*images.training), validation = pictures(*images.validation);
    EXPECT_EQ(std::ssize(training), kAll - kValidation);
    EXPECT_EQ(std::ssize(validation), kValidation);
    for (const auto& picture : validation) EXPECT_FALSE(training.contains(picture));
}

/// Picture `i` of those that differ.
data::Image picture(std::int64_t i, std::int64_t channels = 3) {
    return data::Image(20, 20, channels, static_cast<std::uint8_t>(10 * i));
}

template <class Flags>
Flags flags_of(const ScratchFolder& folder) {
    Flags flags;
    flags.data = folder.path();
    flags.validation = kValidation;
    flags.seed = 3;
    return flags;
}

TEST(Splits, OfDrawnImagesAreDisjoint) {
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1337}, ~std::uint64_t{0}}) {
        segmentation::DataFlags clouds;
        clouds.clouds = kAll - kValidation;
        clouds.validation = kValidation;
        clouds.height = clouds.width = 24;
        clouds.seed = seed;
        expect_apart(segmentation::read_images(clouds));
        detection::DataFlags shapes;
        shapes.images = kAll - kValidation;
        shapes.validation = kValidation;
        shapes.height = shapes.width = 32;
        shapes.seed = seed;
        expect_apart(detection::read_images(shapes));
    }
}

TEST(Splits, OfImagesInFoldersAreDisjoint) {
    const ScratchFolder folder;
    for (const char* part : {"images", "masks"}) fs::create_directory(folder.path() / part);
    nlohmann::json coco{{"images", nlohmann::json::array()},
                        {"categories", {{{"id", 1}, {"name", "cat"}}}},
                        {"annotations", nlohmann::json::array()}};
    for (int i = 0; i < kAll; ++i) {
        const std::string name = fmt::format("{}.png", i);
        data::write_png(folder.path() / "images" / name, picture(i));
        data::write_png(folder.path() / "masks" / name, data::Image(20, 20, 1, 1));
        coco["images"].push_back({{"id", i}, {"file_name", name}, {"height", 20}, {"width", 20}});
        coco["annotations"].push_back({{"id", i},
                                       {"image_id", i},
                                       {"category_id", 1},
                                       {"bbox", {2, 2, 9, 9}},
                                       {"segmentation", {{2, 2, 11, 2, 11, 11}}}});
    }
    auto pairs = flags_of<segmentation::DataFlags>(folder);
    pairs.images = folder.path() / "images";
    pairs.masks = folder.path() / "masks";
    expect_apart(segmentation::read_images(pairs));
    auto annotated = flags_of<detection::DataFlags>(folder);
    annotated.data = pairs.images;
    annotated.annotations = folder.write("coco.json", coco.dump());
    expect_apart(detection::read_images(annotated));
}

TEST(Splits, OfClassesInFoldersAreDisjoint) {
    const ScratchFolder folder, apart;
    for (int i = 0; i < kAll; ++i) {
        const std::string name = fmt::format("{}/{}.png", i % 2 == 0 ? "cat" : "dog", i);
        for (const fs::path& file : {folder.path() / name, apart.path() / (i < kValidation ? "val" : "train") / name}) {
            fs::create_directories(file.parent_path());
            data::write_png(file, picture(i));
        }
    }
    expect_apart(images::read_images(flags_of<images::DataFlags>(folder)));
    expect_apart(images::read_images(flags_of<images::DataFlags>(apart)));
}

std::string big_endian(std::int64_t number) {
    std::string bytes;
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift & 0xff);
    return bytes;
}

/// MNIST's files of pictures [begin, end).
void write_digits(const ScratchFolder& folder, const std::string& prefix, std::int64_t begin, std::int64_t end) {
    const std::int64_t side = picture(0).height;
    std::string pixels = big_endian(0x803) + big_endian(end - begin) + big_endian(side) + big_endian(side);
    std::string labels = big_endian(0x801) + big_endian(end - begin);
    for (std::int64_t i = begin; i < end; ++i) {
        const data::Image image = picture(i, 1);
        pixels.append(image.pixels.begin(), image.pixels.end());
        labels += static_cast<char>(i % 10);
    }
    folder.write(prefix + "-images-idx3-ubyte", pixels);
    folder.write(prefix + "-labels-idx1-ubyte", labels);
}

TEST(Splits, OfDigitsAreDisjoint) {
    const ScratchFolder one, both;
    write_digits(one, "t10k", 0, kAll);
    write_digits(both, "t10k", 0, kValidation);
    write_digits(both, "train", kValidation, kAll);
    expect_apart(images::read_images(flags_of<images::DataFlags>(one)));
    expect_apart(images::read_images(flags_of<images::DataFlags>(both)));
}

/// A record of CIFAR's files.
std::string record(std::int64_t labels, std::int64_t i) {
    return std::string(static_cast<std::size_t>(labels), static_cast<char>(i % 10)) +
           std::string(3072, static_cast<char>(10 * i));
}

TEST(Splits, OfCifarsFilesAreDisjoint) {
    const ScratchFolder ten, hundred;
    std::vector<std::string> batches(5);
    std::string test10, test100, train100;
    for (std::int64_t i = 0; i < kAll; ++i) {
        (i < kValidation ? test10 : batches[static_cast<std::size_t>(i) % 5]) += record(1, i);
        (i < kValidation ? test100 : train100) += record(2, i);
    }
    for (int i = 0; i < 5; ++i)
        ten.write(fmt::format("data_batch_{}.bin", i + 1), batches[static_cast<std::size_t>(i)]);
    ten.write("test_batch.bin", test10);
    hundred.write("train.bin", train100), hundred.write("test.bin", test100);
    expect_apart(images::read_images(flags_of<images::DataFlags>(ten)));
    expect_apart(images::read_images(flags_of<images::DataFlags>(hundred)));
}

std::set<std::int32_t> tokens_of(data::TokenView view) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(view.size()));
    view.copy(0, tokens);
    return {tokens.begin(), tokens.end()};
}

/// Of `count` tokens, which all differ.
void expect_apart(const data::TokenSplit& split, std::int64_t count) {
    std::set<std::int32_t> both = tokens_of(split.train);
    EXPECT_EQ(std::ssize(both), split.train.size());
    both.merge(tokens_of(split.validation));
    EXPECT_EQ(std::ssize(both), count);
    EXPECT_EQ(split.train.size() + split.validation.size(), count);
    EXPECT_GT(split.validation.size(), 0);
}

TEST(Splits, OfTokensAreDisjoint) {
    constexpr std::int64_t count = 1000;
    const ScratchFolder folder;
    std::string text, tokens, held;
    for (std::int64_t i = 0; i < count; ++i) {
        const auto code = static_cast<unsigned>(0x4e00 + i);  // three bytes of UTF-8
        for (const unsigned byte : {0xe0 | code >> 12, 0x80 | (code >> 6 & 0x3f), 0x80 | (code & 0x3f)})
            text += static_cast<char>(byte);
        std::string& file = i < 900 ? tokens : held;
        file += static_cast<char>(i & 0xff), file += static_cast<char>(i >> 8);
    }
    TextFlags flags;
    flags.data = folder.write("text.txt", text);
    expect_apart(read_corpus(flags).split, count);
    flags.tokens = "u16";
    flags.data = folder.write("tokens.bin", tokens + held);
    expect_apart(read_corpus(flags).split, count);
    folder.write("train.bin", tokens), folder.write("val.bin", held);
    flags.data = folder.path();
    flags.vocabulary = count;
    const Corpus corpus = read_special_corpus(flags);
    expect_apart(corpus.split, count);
    EXPECT_EQ(corpus.what, fmt::format("{0} tokens of {0} kinds", count)) << "of both files";

    flags.block = 12;
    const training::Datasets<data::MaskedWindows> windows = text::hidden_tokens(corpus, flags, 1);
    const auto guessed = [](const data::MaskedWindows& part) {
        std::set<std::int32_t> all;
        data::DataLoader loader(part, data::Sampler::sequential(part.size(), 1), {.epochs = 5});
        while (const data::TokenBatch* batch = loader.next())
            for (const std::int32_t token : batch->targets)
                if (token >= 0) all.insert(token);
        return all;
    };
    const std::set<std::int32_t> trained = guessed(windows.training), validated = guessed(windows.validation);
    ASSERT_FALSE(trained.empty() || validated.empty());
    EXPECT_LT(*trained.rbegin(), 900);
    EXPECT_GE(*validated.begin(), 900);
}

}  // namespace splits_test
}  // namespace headroom::cli
