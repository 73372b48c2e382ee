#include <headroom/examples/detection/data.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <tuple>

#include <fmt/format.h>

#include <headroom/data/coco.hpp>
#include <headroom/examples/detection/shapes.hpp>
#include <headroom/examples/program/images.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::detection {

namespace {

data::ImageSourcePointer draw_shapes(const DetectionFlags& flags, std::int64_t count, std::uint64_t seed) {
    return std::make_shared<const Shapes>(
        ShapesOptions{.count = count, .height = flags.height, .width = flags.width, .seed = seed});
}

Images drawn(const DetectionFlags& flags) {
    const std::int64_t held = flags.validation > 0 ? flags.validation : 100;
    return {.training = draw_shapes(flags, flags.images, flags.seed),
            .validation = draw_shapes(flags, held, ~flags.seed),
            .classes = static_cast<std::int64_t>(Shapes::names.size()),
            .what = fmt::format("{} drawn images to train on, {} others to validate", flags.images, held),
            .class_names = {Shapes::names.begin(), Shapes::names.end()}};
}

std::filesystem::path find_annotations(const std::string& folder) {
    namespace fs = std::filesystem;
    if (!fs::is_directory(folder)) throw FileError(fmt::format("{}: no folder", folder));
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == ".json") found.push_back(entry.path());
    if (found.size() != 1)
        throw FileError(fmt::format("{}: has {} JSON files; name the one with the annotations by --annotations", folder,
                                    found.empty() ? "no" : "several"));
    return found[0];
}

std::shared_ptr<const data::CocoImages> read_annotations(const std::filesystem::path& file,
                                                         const DetectionFlags& flags) {
    const data::CocoOptions options{.masks = flags.masks(),
                                    .classes = flags.classes,
                                    .skip_bad_boxes = flags.skip_bad_boxes,
                                    .orientation = flags.read_as()};
    try {
        return std::make_shared<const data::CocoImages>(file, flags.data, options);
    } catch (const data::BadAnnotation& error) {
        throw FileError(fmt::format("{}; {}", error.what(),
                                    error.fault == data::BadAnnotation::Fault::box
                                        ? "--skip-bad-boxes leaves it out"
                                        : "--model fasterrcnn learns boxes without masks"));
    }
}

Images read_coco(const DetectionFlags& flags) {
    const std::filesystem::path file =
        flags.annotations.empty() ? find_annotations(flags.data) : std::filesystem::path(flags.annotations);
    const auto all = read_annotations(file, flags);
    if (all->objects() == 0) throw FileError(fmt::format("{}: has no object to learn", file.string()));
    Images images;
    images.classes = static_cast<std::int64_t>(all->classes().size());
    std::tie(images.training, images.validation) = program::hold_out(all, flags.validation, flags.seed, flags.data);
    images.skipped = program::look_through(flags, {&images.training, &images.validation});
    images.class_names = all->classes();
    images.what = fmt::format("{} images of {} classes to train on, {} others to validate; resized to {}",
                              images.training->size(), images.classes - 1, images.validation->size(),
                              data::wide_and_high(flags.height, flags.width));
    if (const std::size_t skipped = all->skipped().size(); skipped > 0)
        images.what +=
            fmt::format("; {} annotation{} left out, such as {}", skipped, skipped == 1 ? "" : "s", all->skipped()[0]);
    return images;
}

Examples examples(data::ImageSourcePointer source, std::vector<data::ImageTransform> transforms,
                  const DetectionFlags& flags) {
    const data::ImageDataset images(
        std::move(source), {.transforms = std::move(transforms), .scale = data::imagenet_scale(), .seed = flags.seed});
    return {images, {.objects = flags.objects, .masks = flags.masks()}};
}

}  // namespace

Examples Images::training_set(const DetectionFlags& flags) const {
    return examples(training, {data::Resize{flags.height, flags.width}, data::RandomHorizontalFlip{}}, flags);
}

Examples Images::validation_set(const DetectionFlags& flags) const {
    return examples(validation, {data::Resize{flags.height, flags.width}}, flags);
}

Examples rehearsal_set(const DetectionFlags& flags, std::int64_t count) {
    return examples(draw_shapes(flags, count, 0), {}, flags);
}

Images read_images(const DetectionFlags& flags) {
    Images images = flags.data.empty() ? drawn(flags) : read_coco(flags);
    if (flags.classes > 0 && flags.classes < images.classes)
        throw Error(fmt::format("--classes {}: there are {} with the background", flags.classes, images.classes));
    images.classes = std::max(flags.classes, images.classes);
    return images;
}

}  // namespace headroom::detection
