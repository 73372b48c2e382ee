// The examples of data headers: each is compiled as the header shows it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/data/bad_images.hpp>
#include <headroom/data/cifar.hpp>
#include <headroom/data/coco.hpp>
#include <headroom/data/counter_random.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/data/dataset.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/data/file.hpp>
#include <headroom/data/idx.hpp>
#include <headroom/data/image.hpp>
#include <headroom/data/image_color.hpp>
#include <headroom/data/image_dataset.hpp>
#include <headroom/data/image_drawing.hpp>
#include <headroom/data/image_files.hpp>
#include <headroom/data/image_geometry.hpp>
#include <headroom/data/image_header.hpp>
#include <headroom/data/image_sample.hpp>
#include <headroom/data/image_transforms.hpp>
#include <headroom/data/mask_shapes.hpp>
#include <headroom/data/masked_windows.hpp>
#include <headroom/data/prefetcher.hpp>
#include <headroom/data/sampler.hpp>
#include <headroom/data/text.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/data/tokens.hpp>
#include <headroom/data/upload.hpp>
#include <headroom/data/utf8.hpp>
#include <headroom/data/vocabulary.hpp>
#include <headroom/data/wordpiece.hpp>
#include <headroom/optim/gradient_accumulator.hpp>

namespace header_examples {
namespace header_examples_data_test {

using namespace headroom;

using Digits = data::MemoryDataset<std::int32_t>;
using Batch = Digits::Batch;
struct Model {
    Loss loss(Tensor ids, Tensor targets) const { return cross_entropy(ids, targets); }
};
using Loader = data::DataLoader<data::TextWindows>;
void step(const Batch&) {}
void fill(std::int64_t, Batch&) {}
data::Image dot(std::int64_t) { return {}; }

void bad_images_example() {
    const auto photos = std::make_shared<data::ImageFolder>("photos/train");
    const std::vector<data::BadSample> bad = data::find_bad_images(*photos, /*threads=*/2);
    const auto usable = std::make_shared<data::SkippingImages>(photos, bad);
    for (const data::BadSample& one : usable->skipped()) fmt::print("{}\n", one.what);
}

void cifar_example() {
    const auto training = data::read_cifar10("cifar-10-batches-bin", data::CifarPart::train);
    const data::ImageDataset images(training,
                                    {.transforms = {data::RandomCrop{.height = 32, .width = 32, .padding = 4}}});
}

void coco_example() {
    const auto training = std::make_shared<data::CocoImages>("annotations/instances_train2017.json", "train2017");
    const std::vector<std::string>& names = training->classes();
    const data::ImageSample sample = training->load(0);
}

void counter_random_example(std::uint64_t seed, std::uint64_t epoch) {
    data::RandomWords words(seed, /*stream=*/epoch);
    int64_t first = words.below(0, 1000);
    int64_t other = words.below(1, 1000);
    int64_t again = words.below(0, 1000);
}

void data_loader_example(const Digits& dataset, std::uint64_t seed) {
    data::DataLoader loader(dataset, data::Sampler::shuffled(dataset.size(), 64, seed), {.workers = 2});
    for (int epoch = 0; epoch < 10; ++epoch) {
        while (const auto batch = loader.next()) step(*batch);
    }
    data::DataLoaderState here = loader.state();
}

void dataset_example(std::vector<std::uint8_t> pixels, std::vector<std::int32_t> labels) {
    const data::PixelScale scale{.mean = 0.13f, .std = 0.31f};
    auto digits = data::MemoryDataset<int32_t>::images(pixels, {28, 28}, labels, scale);
    auto [train, validation] = std::pair(digits.slice(0, 9000), digits.slice(9000, 1000));
    data::SampleBatch<int32_t> batch;
    train.read(std::vector<int64_t>{4, 2}, batch);
}

void feed_example(Context& context, optim::GradientAccumulator& accumulator, const Model& model, Loader& loader) {
    data::Feed feed(context);
    accumulator.accumulate([&] {
        const data::TokenBatch& batch = *loader.next();
        const Shape shape{batch.rows, batch.length};
        const auto [inputs, targets] = feed.upload({{batch.inputs, shape}, {batch.targets, shape}});
        return model.loss(inputs, targets);
    });
}

void file_example() {
    std::string text = data::read_file("input.txt");
    data::MappedFile tokens("train.bin");
    std::span<const std::byte> bytes = tokens.bytes();
    std::string end = data::FileParts("photo.jpg").read(1000, 2);
}

void idx_example() {
    data::IdxImages images = data::read_idx_images("t10k-images-idx3-ubyte.gz");
    std::vector<uint8_t> labels = data::read_idx_labels("t10k-labels-idx1-ubyte.gz", /*classes=*/10);
    data::LabelledImages mnist = data::read_labelled_images("data", "t10k", /*classes=*/10);
    uint8_t corner = mnist.images.pixels[0];
}

void image_example() {
    const data::Image photo = data::read_image("cat.jpg");
    const data::Image mask = data::read_mask("cat.png");
    const uint8_t red = photo.at(10, 20)[0];
    data::write_png("copy.png", photo);
}

void image_color_example(data::Image photo) {
    data::adjust_brightness(photo, 1.2);
    data::adjust_hue(photo, -0.05);
    const data::Image grey = data::to_grey(photo);
}

void image_dataset_example() {
    const auto photos = std::make_shared<data::ImageFolder>("photos/train");
    const data::ImageDataset training(photos, {.transforms = {data::RandomResizedCrop{.height = 224, .width = 224}},
                                               .scale = data::imagenet_scale(),
                                               .seed = 1});
    data::DataLoader loader(training, data::Sampler::shuffled(training.size(), 32, 1), {.workers = 2});
    const data::ImageBatch& batch = *loader.next();
}

void image_drawing_example(std::vector<float> values, std::int64_t height, std::int64_t width, data::ImageObject object,
                           data::Image mask) {
    data::Image picture = data::image_of(values, height, width, data::imagenet_scale());
    data::tint(picture, object.mask, data::class_color(object.label));
    data::draw_box(picture, object.box, data::class_color(object.label), 1, "person 0.98");
    data::write_png("seen.png", data::beside({picture, data::color_classes(mask)}));
}

void image_files_example() {
    const auto training = std::make_shared<data::ImageFolder>("photos/train");
    const auto held_out =
        std::make_shared<data::ImageFolder>("photos/val", data::ImageFolderOptions{.classes = training->classes()});
    const auto pairs = std::make_shared<data::MaskedImages>("scans/images", "scans/masks", /*classes=*/3);
}

void image_geometry_example(data::Image photo, data::Image mask) {
    const data::Image small = data::resize(photo, 224, 224);
    const data::Image same = data::resize_nearest(mask, 224, 224);
    const data::Image turned = data::warp(photo, {.degrees = 10, .shift_x = 2});
    const data::Image flipped =
        data::flip_horizontal(data::crop(photo, {.top = 8, .left = 8, .height = 64, .width = 64}));
}

void image_header_example(std::string_view bytes) {
    const auto header = data::image_header(bytes);
    if (header) fmt::print("{}\n", data::wide_and_high(header->height, header->width));
    const bool probably_whole = data::whole_image_header("cat.jpg").has_value();
}

void image_sample_example(std::uint64_t seed) {
    class Dots : public data::ImageSource {
        int64_t size() const override { return 1000; }
        data::ImageSample load(int64_t index) const override { return {.image = dot(index), .label = 1}; }
    };
    const auto [train, validation] = data::random_split(std::make_shared<Dots>(), /*second=*/100, seed);
}

void image_transforms_example() {
    const std::vector<data::ImageTransform> training = {
        data::RandomResizedCrop{.height = 224, .width = 224}, data::RandomHorizontalFlip{},
        data::ColorJitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4}};
    const std::vector<data::ImageTransform> validation = {data::ResizeShortestSide{256}, data::CenterCrop{224, 224}};
}

void mask_shapes_example() {
    const data::Image triangle = data::fill_polygons({{2, 2, 18, 2, 2, 12}}, /*height=*/20, /*width=*/30);
    const data::Image runs = data::decode_runs(std::vector<uint32_t>{5, 3, 592}, 20, 30);
    const std::vector<uint32_t> counts = data::parse_runs("53`b0");
}

void masked_windows_example(std::string text, std::uint64_t seed) {
    const auto tokenizer = data::WordPiece::read("vocab.txt");
    const std::vector<int32_t> tokens = tokenizer.encode(text);
    const data::MaskedWindows windows({tokens, tokenizer.size()}, /*length=*/128,
                                      {tokenizer.cls(), tokenizer.sep(), tokenizer.mask()});
    data::DataLoader loader(windows, data::Sampler::shuffled(windows.size(), 16, seed), {.workers = 1});
}

void prefetcher_example() {
    std::vector<Batch> ring(4);
    data::Prefetcher prefetcher({.workers = 2, .slots = 4}, [&](int64_t task, int slot) { fill(task, ring[slot]); });
    for (int step = 0; step < 100; ++step) {
        const Batch& batch = ring[prefetcher.next()];
    }
}

void sampler_example() {
    data::Sampler sampler = data::Sampler::shuffled(/*samples=*/9000, /*batch=*/64, /*seed=*/1, {.drop_last = true});
    std::vector<int64_t> indices;
    for (int64_t batch = 0; batch < sampler.batches(); ++batch) {
        sampler.indices(/*epoch=*/0, batch, indices);
    }
}

void text_example() {
    data::TextCorpus corpus = data::TextCorpus::characters("input.txt", {.block = 64});
    data::TokenSplit parts = corpus.split();
    int64_t classes = corpus.vocabulary().size();
    auto prompt = corpus.vocabulary().encode("ROMEO:");
}

void text_windows_example(const data::TextCorpus& corpus, std::uint64_t seed) {
    data::TextWindows windows(corpus.split().train, /*block=*/64, data::WindowStart::every_token);
    data::DataLoader loader(windows, data::Sampler::with_replacement(windows.size(), /*batch=*/12, seed));
    data::TextWindows held_out(corpus.split().validation, 64, data::WindowStart::every_block);
    data::DataLoader evaluation(held_out, held_out.in_order(/*batch=*/12), {.epochs = 1});
}

void tokens_example() {
    data::TokenFile file("train.bin", data::TokenFormat::u16, /*vocabulary_size=*/50257);
    data::TokenView tokens = file.view();
    std::vector<int32_t> window(1025);
    tokens.copy(/*first=*/4096, window);
}

void upload_example(Context& context, data::DataLoader<data::ImageDataset>& loader) {
    data::Feed feed(context);
    const std::vector<Tensor> tensors = data::upload(feed, *loader.next());  // images and labels
}

void utf8_example(std::string sampled_bytes) {
    std::string copy;
    data::for_each_code_point("naïve", [&](uint32_t point, std::size_t) { data::append_utf8(copy, point); });
    std::string shown = data::printable(sampled_bytes);
}

void vocabulary_example(std::string text) {
    data::Vocabulary vocabulary = data::Vocabulary::characters(text);
    std::vector<int32_t> tokens = vocabulary.encode("To be");
    std::string back = vocabulary.decode(tokens);
    auto restored = data::Vocabulary::restore(vocabulary.kind(), vocabulary.code_points());
}

void wordpiece_example() {
    const auto tokenizer = data::WordPiece::read("bert-base-uncased/vocab.txt");
    const std::vector<int32_t> ids = tokenizer.encode("Unaffable!");
    const data::TokenizedText pair = tokenizer.encode_pair("Is it?", "It is.");
    const std::string text = tokenizer.decode(pair.ids);
}

TEST(HeaderExamples, OfDataRun) {
    const data::Image photo(100, 100, 3), mask(100, 100, 1);
    counter_random_example(1, 2);
    data_loader_example(Digits(std::vector<float>(200), {2}, std::vector<std::int32_t>(100)), 1);
    dataset_example(std::vector<std::uint8_t>(10'000 * 28 * 28), std::vector<std::int32_t>(10'000));
    image_color_example(photo);
    image_geometry_example(photo, mask);
    image_sample_example(1);
    image_transforms_example();
    mask_shapes_example();
    prefetcher_example();
    sampler_example();
    utf8_example("To be");
    vocabulary_example("To be");
}

}  // namespace header_examples_data_test
}  // namespace header_examples
