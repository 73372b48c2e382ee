#include <headroom/examples/detection/data.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <numbers>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <headroom/data/coco.hpp>
#include <headroom/data/counter_random.hpp>
#include <headroom/data/image_drawing.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::detection {

namespace {

using data::Color;
using data::Draws;
using data::Image;

struct Shape {
    std::int32_t label = 0;
    double x = 0, y = 0;  ///< of its middle
    double radius = 0;    ///< of a rectangle, half its length
    double ratio = 1;     ///< a rectangle's width over its length
    double cosine = 1, sine = 0;

    bool holds(double px, double py) const {
        const double along = (px - x) * cosine + (py - y) * sine;
        const double across = (py - y) * cosine - (px - x) * sine;
        if (label == 1) return along * along + across * across <= radius * radius;
        if (label == 2) return std::abs(along) <= radius && std::abs(across) <= ratio * radius;
        const double side = std::numbers::sqrt3 * std::abs(along) - across;
        return across <= radius / 2 && side <= radius;
    }
};

Color random_color(Draws& draws) {
    Color color;
    for (std::uint8_t& channel : color) channel = static_cast<std::uint8_t>(draws.below(256));
    return color;
}

/// One that stands out against another.
Color random_color(Draws& draws, const Color& other) {
    for (;;) {
        const Color color = random_color(draws);
        int difference = 0;
        for (std::size_t c = 0; c < color.size(); ++c) difference += std::abs(color[c] - other[c]);
        if (difference >= 200) return color;
    }
}

Shape random_shape(Draws& draws, std::int64_t height, std::int64_t width) {
    const auto side = static_cast<double>(std::min(height, width));
    const double angle = draws.uniform(0, 2 * std::numbers::pi);
    Shape shape{.label = static_cast<std::int32_t>(1 + draws.below(3)),
                .radius = draws.uniform(side / 10, side / 4),
                .ratio = draws.uniform(0.4, 1),
                .cosine = std::cos(angle),
                .sine = std::sin(angle)};
    shape.x = draws.uniform(shape.radius, static_cast<double>(width) - shape.radius);
    shape.y = draws.uniform(shape.radius, static_cast<double>(height) - shape.radius);
    return shape;
}

Image mask_of(const Shape& shape, std::int64_t height, std::int64_t width) {
    Image mask(height, width, 1);
    for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x)
            *mask.at(y, x) = shape.holds(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5) ? 1 : 0;
    return mask;
}

std::int64_t area(const Image& mask) { return std::ranges::count(mask.pixels, std::uint8_t{1}); }

data::Box box_of(const Image& mask) {
    std::int64_t left = mask.width, top = mask.height, right = 0, bottom = 0;
    for (std::int64_t y = 0; y < mask.height; ++y)
        for (std::int64_t x = 0; x < mask.width; ++x) {
            if (*mask.at(y, x) == 0) continue;
            left = std::min(left, x), right = std::max(right, x + 1);
            top = std::min(top, y), bottom = std::max(bottom, y + 1);
        }
    return {static_cast<float>(left), static_cast<float>(top), static_cast<float>(right), static_cast<float>(bottom)};
}

/// What is left of a mask behind another one.
Image behind(Image mask, const Image& front) {
    for (std::size_t i = 0; i < mask.pixels.size(); ++i)
        if (front.pixels[i] != 0) mask.pixels[i] = 0;
    return mask;
}

/// From one colour to one near it, from left to right.
Image background(Draws& draws, const Color& color, std::int64_t height, std::int64_t width) {
    Image image(height, width, 3);
    for (std::size_t c = 0; c < color.size(); ++c) {
        const double change = draws.uniform(-40, 40);
        for (std::int64_t y = 0; y < height; ++y)
            for (std::int64_t x = 0; x < width; ++x) {
                const double share = static_cast<double>(x) / static_cast<double>(width);
                image.at(y, x)[c] = static_cast<std::uint8_t>(std::clamp(color[c] + share * change, 0.0, 255.0));
            }
    }
    return image;
}

/// Puts a shape in front, unless it hides more than half of another one.
void add(data::ImageSample& sample, std::vector<std::int64_t>& areas, const Shape& shape, const Color& color) {
    const Image front = mask_of(shape, sample.image.height, sample.image.width);
    std::vector<Image> left;
    for (std::size_t i = 0; i < sample.objects.size(); ++i) {
        left.push_back(behind(sample.objects[i].mask, front));
        if (2 * area(left.back()) < areas[i]) return;
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
        sample.objects[i].box = box_of(left[i]);
        sample.objects[i].mask = std::move(left[i]);
    }
    areas.push_back(area(front));
    data::tint(sample.image, front, color, 1);
    data::ImageObject object;
    object.box = box_of(front);
    object.label = shape.label;
    object.mask = front;
    sample.objects.push_back(std::move(object));
}

float area(const data::Box& box) { return (box.x2 - box.x1) * (box.y2 - box.y1); }

data::ImageSourcePointer draw_shapes(const DataFlags& flags, std::int64_t count, std::uint64_t seed) {
    return std::make_shared<const Shapes>(
        ShapesOptions{.count = count, .height = flags.height, .width = flags.width, .seed = seed});
}

Images drawn(const DataFlags& flags) {
    const std::int64_t held = flags.validation > 0 ? flags.validation : 100;
    return {.training = draw_shapes(flags, flags.images, flags.seed),
            .validation = draw_shapes(flags, held, ~flags.seed),
            .classes = static_cast<std::int64_t>(Shapes::names.size()),
            .what = fmt::format("{} drawn images to train on, {} others to validate", flags.images, held),
            .class_names = {Shapes::names.begin(), Shapes::names.end()}};
}

std::filesystem::path find_annotations(const std::string& folder) {
    namespace fs = std::filesystem;
    if (!fs::is_directory(folder)) throw FileError(fmt::format("{}: is not a folder", folder));
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == ".json") found.push_back(entry.path());
    if (found.size() != 1)
        throw FileError(fmt::format("{}: has {} JSON files; name the one with the annotations by --annotations", folder,
                                    found.empty() ? "no" : "several"));
    return found[0];
}

std::shared_ptr<const data::CocoImages> read_annotations(const std::filesystem::path& file, const DataFlags& flags) {
    data::CocoOptions options{.masks = flags.masks(),
                              .labels_are_ids = flags.labels == "ids",
                              .classes = flags.classes,
                              .orientation = flags.read_as()};
    std::shared_ptr<const data::CocoImages> all;
    try {
        all = std::make_shared<const data::CocoImages>(file, flags.data, options);
    } catch (const data::BadLabel& error) {
        if (!options.labels_are_ids) throw;
        throw FileError(fmt::format("{}; --labels order numbers the categories 1, 2, ... instead", error.what()));
    }
    if (all->objects() > 0) return all;
    std::string what = fmt::format("{}: has no object to learn", file.string());
    what += cli::left_out(all->skipped(), "annotation");
    options.masks = false;
    if (flags.masks() && data::CocoImages(file, flags.data, options).objects() > 0)
        what += "; --model fasterrcnn learns boxes without masks";
    throw FileError(what);
}

Images read_coco(const DataFlags& flags) {
    const std::filesystem::path file =
        flags.annotations.empty() ? find_annotations(flags.data) : std::filesystem::path(flags.annotations);
    const auto all = read_annotations(file, flags);
    Images images;
    images.classes = static_cast<std::int64_t>(all->classes().size());
    std::tie(images.training, images.validation) = cli::hold_out(all, flags.validation, flags.seed, flags.data);
    images.skipped = cli::look_through(flags, {&images.training, &images.validation});
    images.class_names = all->classes();
    images.what = fmt::format("{} images of {} classes to train on, {} others to validate; resized to {}",
                              images.training->size(), images.classes - 1, images.validation->size(),
                              data::wide_and_high(flags.height, flags.width));
    images.what += cli::left_out(all->skipped(), "annotation");
    if (const auto& trimmed = all->trimmed(); !trimmed.empty())
        images.what += fmt::format("; of {} annotation{} some polygons are left out, such as {}", trimmed.size(),
                                   trimmed.size() == 1 ? "" : "s", trimmed[0]);
    if (const std::int64_t beyond = all->objects_beyond(flags.objects); beyond > 0)
        images.what += fmt::format("; {} object{} left out, the smallest of images with more than --objects {}", beyond,
                                   beyond == 1 ? "" : "s", flags.objects);
    return images;
}

Examples examples(data::ImageSourcePointer source, std::vector<data::ImageTransform> transforms,
                  const DataFlags& flags) {
    const data::ImageDataset images(
        std::move(source), {.transforms = std::move(transforms), .scale = data::imagenet_scale(), .seed = flags.seed});
    return {images, {.objects = flags.objects, .masks = flags.masks()}};
}

}  // namespace

Shapes::Shapes(const ShapesOptions& options) : options_(options) {
    if (options.height < least_side || options.width < least_side || options.count < 1 || options.most < 1)
        throw ShapeError(fmt::format(
            "drawn images need sides of at least {} pixels, 1 image and 1 shape, got {}, {} images and {} shapes",
            least_side, data::wide_and_high(options.height, options.width), options.count, options.most));
}

data::ImageSample Shapes::load(std::int64_t index) const {
    Draws draws(options_.seed, static_cast<std::uint64_t>(index));
    const Color ground = random_color(draws);
    data::ImageSample sample{.image = background(draws, ground, options_.height, options_.width)};
    std::vector<std::int64_t> areas;  // of the shapes, what is hidden of them included
    for (std::int64_t left = 1 + draws.below(options_.most); left > 0; --left) {
        const Shape shape = random_shape(draws, options_.height, options_.width);
        add(sample, areas, shape, random_color(draws, ground));
    }
    for (std::uint8_t& value : sample.image.pixels)
        value = static_cast<std::uint8_t>(std::clamp(value + draws.uniform(-25, 25), 0.0, 255.0));
    return sample;
}

std::string Shapes::name(std::int64_t index) const { return fmt::format("drawn image {}", index); }

Examples::Examples(data::ImageDataset images, const ExampleOptions& options)
    : images_(std::move(images)), options_(options) {
    if (options.objects < 1)
        throw Error(fmt::format("examples need room for at least 1 object, got {}", options.objects));
}

void Examples::read(std::span<const std::int64_t> indices, std::uint64_t first_draw, Batch& batch) const {
    images_.read(indices, first_draw, batch.images);
    const auto count = static_cast<std::size_t>(batch.images.rows * options_.objects);
    const auto pixels = static_cast<std::size_t>(batch.images.height * batch.images.width);
    batch.boxes.assign(4 * count, 0.0f);
    batch.labels.assign(count, 0);
    batch.masks.assign(options_.masks ? count * pixels : 0, 0);
    for (std::size_t row = 0; row < indices.size(); ++row) write(batch.images.objects[row], row, batch);
}

void Examples::write(const std::vector<data::ImageObject>& objects, std::size_t row, Batch& batch) const {
    std::vector<const data::ImageObject*> largest;
    for (const data::ImageObject& object : objects)
        if (!object.crowd) largest.push_back(&object);
    std::ranges::stable_sort(largest, std::ranges::greater(), [](const auto* object) { return area(object->box); });
    const std::size_t most = std::min(largest.size(), static_cast<std::size_t>(options_.objects));
    std::size_t at = row * static_cast<std::size_t>(options_.objects);
    for (std::size_t i = 0; i < most; ++i, ++at) {
        const data::ImageObject& object = *largest[i];
        const float box[]{object.box.x1, object.box.y1, object.box.x2, object.box.y2};
        std::ranges::copy(box, batch.boxes.data() + 4 * at);
        batch.labels[at] = object.label;
        if (!options_.masks) continue;
        if (object.mask.empty()) throw Error(fmt::format("annotation {} has no mask", object.id));
        std::ranges::copy(object.mask.pixels, batch.masks.data() + at * object.mask.pixels.size());
    }
}

std::string Images::name_of(std::int32_t label) const {
    const auto at = static_cast<std::size_t>(label);
    return at < class_names.size() && !class_names[at].empty() ? class_names[at] : fmt::to_string(label);
}

Examples Images::training_set(const DataFlags& flags) const {
    return examples(training, {data::Resize{flags.height, flags.width}, data::RandomHorizontalFlip{}}, flags);
}

Examples Images::validation_set(const DataFlags& flags) const {
    return examples(validation, {data::Resize{flags.height, flags.width}}, flags);
}

Examples rehearsal_set(const DataFlags& flags, std::int64_t count) {
    return examples(cli::alike(count, {.image = Image(flags.height, flags.width, 3)}), {}, flags);
}

Images read_images(const DataFlags& flags) {
    Images images = flags.data.empty() ? drawn(flags) : read_coco(flags);
    if (flags.classes > 0 && flags.classes < images.classes)
        throw Error(fmt::format("--classes {}: there are {} with the background", flags.classes, images.classes));
    images.classes = std::max(flags.classes, images.classes);
    return images;
}

}  // namespace headroom::detection
