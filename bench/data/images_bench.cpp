// What an image costs a loader's thread: a JPEG of 500 x 375 pixels with the detail of a photograph (73 KB),
// decoded, cropped and resized to 224 x 224, flipped, its colours changed, normalised. One thread; `items_per_second`
// is images.
//     data_images_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

// Needs cstdio's types first.
#include <jpeglib.h>

#include <benchmark/benchmark.h>

#include <headroom/data/counter_random.hpp>
#include <headroom/data/image_dataset.hpp>
#include <headroom/data/image_geometry.hpp>
#include <headroom/data/image_header.hpp>

namespace headroom::data {
namespace {

Image photograph() {
    Image image(375, 500, 3);
    const RandomWords noise(1, 2);
    uint64_t next = 0;
    for (int64_t y = 0; y < image.height; ++y)
        for (int64_t x = 0; x < image.width; ++x)
            for (int64_t c = 0; c < 3; ++c) {
                const auto [u, v] = std::pair(static_cast<double>(x + 40 * c), static_cast<double>(y));
                const double smooth = std::sin(u / 37) * std::cos(v / 23) + 0.4 * std::sin(u * v / 900);
                image.at(y, x)[c] =
                    static_cast<uint8_t>(128 + 70 * smooth + static_cast<double>(noise.below(next++, 24)));
            }
    return image;
}

std::string jpeg_of(const Image& image) {
    jpeg_error_mgr errors;
    jpeg_compress_struct jpeg{};
    jpeg.err = jpeg_std_error(&errors);  // an error ends the program
    jpeg_create_compress(&jpeg);
    unsigned char* memory = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&jpeg, &memory, &size);
    jpeg.image_width = static_cast<JDIMENSION>(image.width);
    jpeg.image_height = static_cast<JDIMENSION>(image.height);
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 92, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int64_t y = 0; y < image.height; ++y) {
        auto* row = const_cast<uint8_t*>(image.at(y, 0));
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    const std::string bytes(reinterpret_cast<const char*>(memory), size);
    std::free(memory);
    return bytes;
}

void Decode(benchmark::State& state) {
    const std::string bytes = jpeg_of(photograph());
    for (auto _ : state) benchmark::DoNotOptimize(decode_image(bytes, "photograph"));
    state.SetItemsProcessed(state.iterations());
    state.counters["bytes"] = static_cast<double>(bytes.size());
}

/// What a look at a file costs, by the system's cache, before a training decodes it.
void Look(benchmark::State& state) {
    const std::filesystem::path file = std::filesystem::temp_directory_path() / "headroom_images_bench.jpg";
    std::ofstream(file, std::ios::binary) << jpeg_of(photograph());
    for (auto _ : state) benchmark::DoNotOptimize(whole_image_header(file));
    std::filesystem::remove(file);
    state.SetItemsProcessed(state.iterations());
}

void Turn(benchmark::State& state) {
    const Image photo = photograph();
    for (auto _ : state) benchmark::DoNotOptimize(turn(photo, 6));
    state.SetItemsProcessed(state.iterations());
}

void Transform(benchmark::State& state, const std::vector<ImageTransform>& transforms) {
    const ImageSample photo{.image = photograph()};
    uint64_t draw = 0;
    for (auto _ : state) {
        ImageSample sample = photo;
        Draws draws(1, draw++);
        for (const ImageTransform& transform : transforms) transform(sample, draws);
        benchmark::DoNotOptimize(sample.image.pixels.data());
    }
    state.SetItemsProcessed(state.iterations());
}

/// Decodes one JPEG again and again.
class Photographs : public ImageSource {
  public:
    int64_t size() const override { return 32; }
    ImageSample load(int64_t) const override { return {.image = decode_image(bytes_, "photograph")}; }

  private:
    std::string bytes_ = jpeg_of(photograph());
};

void Batches(benchmark::State& state, const std::vector<ImageTransform>& transforms) {
    const ImageDataset dataset(std::make_shared<Photographs>(), {.transforms = transforms, .scale = imagenet_scale()});
    std::vector<int64_t> indices(32);
    ImageBatch batch;
    uint64_t draw = 0;
    for (auto _ : state) {
        dataset.read(indices, draw, batch);
        draw += indices.size();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(indices.size()));
}

const ImageTransform random_crop = RandomResizedCrop{.height = 224, .width = 224};
const ImageTransform jitter = ColorJitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4};
const ImageTransform hue = ColorJitter{.hue = 0.1};
const std::vector<ImageTransform> training = {random_crop, RandomHorizontalFlip{}};
const std::vector<ImageTransform> jittered = {random_crop, RandomHorizontalFlip{}, jitter};
const std::vector<ImageTransform> validation = {ResizeShortestSide{256}, CenterCrop{224, 224}};

BENCHMARK(Decode)->Unit(benchmark::kMicrosecond);
BENCHMARK(Look)->Unit(benchmark::kMicrosecond);
BENCHMARK(Turn)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Transform, random_resized_crop, {random_crop})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Transform, resize_and_center_crop, validation)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Transform, jitter, {jitter})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Transform, hue, {hue})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Batches, training, training)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Batches, training_with_jitter, jittered)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Batches, validation, validation)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace headroom::data
