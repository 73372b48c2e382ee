#pragma once
// What programs that train on images do alike: they hold images out for validation, look through their files, and draw
// those of a batch.
//
//     struct ScanFlags : cli::ImageFileFlags {...};
//     cli::add_image_files(app, flags, "threads that read images");
//     std::tie(images.training, images.validation) = cli::hold_out(all, flags.validation, flags.seed, flags.data);
//     images.skipped = cli::look_through(flags, {&images.training, &images.validation});
//     const data::Image first = cli::image_in(batch, 0, data::imagenet_scale());
//     const auto rehearsed = cli::loaded_once(images.training);
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headroom/data/image_dataset.hpp>
#include <headroom/examples/cli/epochs.hpp>
#include <headroom/examples/cli/options.hpp>

namespace headroom::cli {

struct ImageFileFlags : EpochFlags {
    bool skip_bad_images = false;
    std::string orientation = "upright";
    int workers = 2;

    /// None: as the annotations say.
    std::optional<data::Orientation> read_as() const;
};

/// --skip-bad-images, --orientation and --workers. `annotated`: annotations say the size of an image.
void add_image_files(App& app, ImageFileFlags& flags, const std::string& workers, bool annotated = false);

/// Looks at all files of `parts` without decoding them (`data::find_bad_images`). With --skip-bad-images, others take
/// the places of bad images there, also of those that only decoding will find, and what is returned says which (for
/// `Program`). Says if some images are black for their values of 16 bits are below 256. Errors: FileError that says how
/// many are bad, and why the first is, unless they are to be skipped or are all of a part; FileError if all are black
/// so.
std::function<std::vector<std::string>()> look_through(const ImageFileFlags& flags,
                                                       const std::vector<data::ImageSourcePointer*>& parts);

/// "; 3 folders left out, such as photos/.cache, a hidden folder": for people, behind what there is. Empty for no line.
/// `lines`: what was left out, and why.
std::string left_out(const std::vector<std::string>& lines, const std::string& noun);

/// Splits images at random: those to train on, and as many as `wanted` to validate on, or a tenth if that is 0. The
/// choice depends on the seed and on the names below `folder`, so that others stay where they are when an image comes
/// or goes. Errors: Error that names the folder if none is left to train on.
std::pair<data::ImageSourcePointer, data::ImageSourcePointer> hold_out(const data::ImageSourcePointer& all,
                                                                       std::int64_t wanted, std::uint64_t seed,
                                                                       const std::string& folder);

/// For rehearsals, which need sizes alone: `count` times the same sample.
data::ImageSourcePointer alike(std::int64_t count, data::ImageSample sample);
/// For rehearsals, which read the same samples again and again: a sample is loaded once, and from then on a blank one
/// of its sizes takes its place, without label and objects. Errors: as the source's.
data::ImageSourcePointer loaded_once(data::ImageSourcePointer source);

/// Image `row` of a batch, whose channels have that scale.
data::Image image_in(const data::ImageBatch& batch, std::size_t row, const std::vector<data::PixelScale>& scale);

}  // namespace headroom::cli
