#include <headroom/examples/images/data.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/data/cifar.hpp>
#include <headroom/data/idx.hpp>
#include <headroom/data/image_drawing.hpp>
#include <headroom/data/image_files.hpp>
#include <headroom/examples/cli/images.hpp>
#include <headroom/examples/images/classifier.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::images {

namespace {

using data::ImageSourcePointer;
using data::ImageTransform;

constexpr std::int64_t kPhotoSide = 224;

/// What a folder holds, before anything is done to it.
struct Found {
    ImageSourcePointer training = {};
    ImageSourcePointer validation = {};
    std::int64_t height = 0;  ///< 0: of several sizes
    std::int64_t width = 0;
    std::int64_t channels = 0;
    std::int64_t classes = 0;
    std::vector<std::string> class_names = {};
    std::string augment = {};
    std::string what = {};
    std::function<std::vector<std::string>()> skipped = {};
};

ImageSourcePointer part(const ImageSourcePointer& source, std::int64_t first, std::int64_t count) {
    if (first == 0 && count == source->size()) return source;
    std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
    std::iota(indices.begin(), indices.end(), first);
    return data::subset(source, std::move(indices));
}

/// Keeps as many images for validation as --validation says.
void limit_validation(Found& found, const DataFlags& flags) {
    if (flags.validation == 0) return;
    if (flags.validation > found.validation->size())
        throw Error(fmt::format("--validation {}: {} has only {} images for that", flags.validation, flags.data,
                                found.validation->size()));
    found.validation = part(found.validation, 0, flags.validation);
}

Found read_idx(const DataFlags& flags) {
    Found found{.classes = flags.classes > 0 ? flags.classes : 10, .augment = "affine"};
    const auto read = [&](const char* prefix) {
        data::LabelledImages read = data::read_labelled_images(flags.data, prefix, found.classes);
        if (found.height > 0 && (read.images.rows != found.height || read.images.columns != found.width))
            throw FileError(fmt::format("{}: images of t10k-* are {}, those of train-* {}", flags.data,
                                        data::wide_and_high(found.height, found.width),
                                        data::wide_and_high(read.images.rows, read.images.columns)));
        found.height = read.images.rows;
        found.width = read.images.columns;
        found.channels = 1;
        return std::make_shared<data::MemoryImages>(std::move(read));
    };
    const ImageSourcePointer held = read("t10k");
    if (data::has_labelled_images(flags.data, "train")) {
        found.training = read("train");
        found.validation = held;
        limit_validation(found, flags);
        found.what = fmt::format("{} images of train-* to train on, {} of t10k-* to validate", found.training->size(),
                                 found.validation->size());
        return found;
    }
    const std::int64_t count = flags.validation > 0 ? flags.validation : 1000;
    const std::int64_t used = held->size() - count;
    if (used < 1)
        throw Error(fmt::format("--validation {}: t10k-* in {} has {} images, and none is left to train on", count,
                                flags.data, held->size()));
    found.training = part(held, 0, used);
    found.validation = part(held, used, count);
    found.what = fmt::format("{} images of t10k-* to train on, {} others of them to validate", used, count);
    return found;
}

/// Of a file with a name in each line; none if it is not there.
std::vector<std::string> read_names(const std::filesystem::path& file) {
    std::vector<std::string> names;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);)
        if (!line.empty()) names.push_back(line);
    return names;
}

Found read_cifar(const DataFlags& flags, data::CifarKind kind) {
    const bool ten = kind == data::CifarKind::ten;
    const auto read = ten ? data::read_cifar10 : data::read_cifar100;
    Found found{.training = read(flags.data, data::CifarPart::train),
                .validation = read(flags.data, data::CifarPart::test),
                .height = 32,
                .width = 32,
                .channels = 3,
                .classes = ten ? 10 : 100,
                .augment = "crop"};
    if (ten)
        found.class_names = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
    else
        found.class_names = read_names(std::filesystem::path(flags.data) / "fine_label_names.txt");
    limit_validation(found, flags);
    found.what =
        fmt::format("{} images of {} to train on, {} of {} to validate", found.training->size(),
                    ten ? "data_batch_*" : "train.bin", found.validation->size(), ten ? "test_batch" : "test.bin");
    return found;
}

Found read_folder(const DataFlags& flags) {
    const std::filesystem::path folder(flags.data);
    const bool apart = std::filesystem::is_directory(folder / "train");
    data::ImageFolderOptions options{.orientation = *flags.read_as()};
    const auto all = std::make_shared<const data::ImageFolder>(apart ? folder / "train" : folder, options);
    Found found{.channels = 3,
                .classes = static_cast<std::int64_t>(all->classes().size()),
                .class_names = all->classes(),
                .augment = "photo"};
    std::vector<std::string> left_out = all->left_out();
    if (apart) {
        found.training = all;
        options.classes = all->classes();
        const auto held = std::make_shared<const data::ImageFolder>(folder / "val", options);
        std::ranges::copy(held->left_out(), std::back_inserter(left_out));
        found.validation = held;
        limit_validation(found, flags);
    } else {
        std::tie(found.training, found.validation) = cli::hold_out(all, flags.validation, flags.seed, flags.data);
    }
    found.skipped = cli::look_through(flags, {&found.training, &found.validation});
    found.what =
        fmt::format("{} images of {} classes to train on, {} {} to validate{}", found.training->size(), found.classes,
                    found.validation->size(), apart ? "of val" : "others of them", cli::left_out(left_out, "folder"));
    return found;
}

/// For rehearsals.
Found blank_images(const DataFlags& flags) {
    const std::int64_t some = 10 * flags.trainer.batch * flags.trainer.accumulate;
    const auto blank = cli::alike(some, {.image = data::Image(1, 1, 1)});
    const bool digits = !is_torchvisions(flags.model);
    const std::int64_t usual = digits ? 28 : kPhotoSide;
    const auto or_else = [](std::int64_t wanted, std::int64_t other) { return wanted > 0 ? wanted : other; };
    Found found{.training = blank,
                .validation = blank,
                .height = or_else(flags.height, usual),
                .width = or_else(flags.width, usual),
                .channels = digits ? 1 : 3,
                .classes = or_else(flags.classes, digits ? 10 : 1000),
                .augment = "none"};
    found.what = fmt::format("no data, only blank images, {}, of {} classes",
                             data::wide_and_high(found.height, found.width), found.classes);
    return found;
}

Found find(const DataFlags& flags) {
    if (flags.data.empty()) return blank_images(flags);
    for (const char* prefix : {"t10k", "train"})
        if (data::has_labelled_images(flags.data, prefix)) return read_idx(flags);
    const data::CifarKind cifar = data::find_cifar(flags.data);
    return cifar == data::CifarKind::none ? read_folder(flags) : read_cifar(flags, cifar);
}

/// The first layers of torchvision's networks have three channels.
void repeat_grey(data::ImageSample& sample, data::Draws&) {
    if (sample.image.channels == 1) sample.image = data::beside({sample.image});
}

/// A size of the flags, else of the data, but no less than the model takes.
std::int64_t side(std::int64_t wanted, std::int64_t found, std::int64_t least) {
    return std::max(wanted > 0 ? wanted : found > 0 ? found : kPhotoSide, least);
}

/// Gives every image the model's size; photos have several sizes.
std::vector<ImageTransform> resized(const Found& found, const Images& images) {
    const bool photos = found.height == 0;
    if (photos)
        return {data::ResizeShortestSide{std::max(images.height, images.width) * 8 / 7},
                data::CenterCrop{images.height, images.width}};
    if (found.height == images.height && found.width == images.width) return {};
    return {data::Resize{images.height, images.width}};
}

std::string resizing(const Found& found, const Images& images, const DataFlags& flags, std::int64_t least) {
    const bool raised =
        images.height > side(flags.height, found.height, 1) || images.width > side(flags.width, found.width, 1);
    if (!raised && found.height == images.height && found.width == images.width) return "";
    std::string what = fmt::format("; resized to {}", data::wide_and_high(images.height, images.width));
    if (raised) what += fmt::format(", since {} needs at least {} each way", flags.model, least);
    return what;
}

/// How training images vary; the crops of photos also resize them.
std::vector<ImageTransform> variations(const Images& images) {
    const std::int64_t height = images.height, width = images.width;
    if (images.augment == "affine")
        return {
            data::RandomAffine{.degrees = 12, .shift_x = 0.08, .shift_y = 0.08, .least_scale = 0.9, .most_scale = 1.1}};
    if (images.augment == "crop")
        return {data::RandomCrop{.height = height, .width = width, .padding = std::max(height, width) / 8},
                data::RandomHorizontalFlip{}};
    if (images.augment == "photo")
        return {data::RandomResizedCrop{.height = height, .width = width}, data::RandomHorizontalFlip{}};
    return {};
}

}  // namespace

data::ImageDataset Images::training_set(std::uint64_t seed) const {
    return {training, {.transforms = vary, .scale = scale, .seed = seed}};
}

data::ImageDataset Images::validation_set() const { return {validation, {.transforms = fit, .scale = scale}}; }

data::ImageDataset Images::blank(std::int64_t count) const {
    return {cli::alike(count, {.image = data::Image(height, width, channels)}), {.scale = scale}};
}

Images read_images(const DataFlags& flags) {
    Found found = find(flags);
    if (flags.classes > 0 && flags.classes < found.classes)
        throw Error(fmt::format("--classes {}: {} has {} classes", flags.classes, flags.data, found.classes));
    const std::int64_t least = least_size(flags.model);
    Images images{.training = found.training,
                  .validation = found.validation,
                  .height = side(flags.height, found.height, least),
                  .width = side(flags.width, found.width, least),
                  .channels = is_torchvisions(flags.model) ? 3 : found.channels,
                  .classes = std::max(flags.classes, found.classes),
                  .class_names = found.class_names,
                  .augment = flags.augment == "auto" ? found.augment : flags.augment,
                  .what = found.what,
                  .skipped = found.skipped};
    images.what += resizing(found, images, flags, least);
    images.scale = images.channels == 1 ? std::vector{data::PixelScale{0.1307f, 0.3081f}} : data::imagenet_scale();
    images.fit = resized(found, images);
    if (images.augment != "photo") images.vary = images.fit;
    std::ranges::copy(variations(images), std::back_inserter(images.vary));
    if (images.channels != found.channels)
        for (auto* transforms : {&images.vary, &images.fit}) transforms->push_back(repeat_grey);
    return images;
}

}  // namespace headroom::images
