#pragma once
// The images and masks that train_segmentation trains on, from files or drawn: what it can be told of them, which
// values of masks stand for which classes, and clouds.
//
//     const Split split = read_images(flags);             // of DataFlags
//     parse_mask_values("0,255");                         // {0, 255}
//     const std::string found = find_mask_values(flags);  // "0,255", or "" where values are classes
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <headroom/data/image_sample.hpp>
#include <headroom/examples/cli/images.hpp>
#include <headroom/examples/cli/options.hpp>

namespace headroom::segmentation {

struct DataFlags : cli::ImageFileFlags {
    std::string data;    ///< folder with the next two
    std::string images;  ///< folder; empty: clouds are drawn
    std::string masks;   ///< folder
    std::string mask_suffix;
    std::string mask_values;     ///< of the classes in their order: "0,255"; empty: the classes themselves
    std::int64_t ignore = -1;    ///< a value of masks; below 0: none
    std::int64_t clouds = 2800;  ///< to draw
    double noise = 0.5;
    std::int64_t height = 256;  ///< pixels
    std::int64_t width = 256;
    std::int64_t classes = 3;
    std::int64_t validation = 0;  ///< images; 0: 100 drawn ones, or a tenth of the files
    std::string flips = "both";
    double crop = 1;  ///< share of height and of width

    bool has_files() const { return !images.empty(); }
};

/// Ranges are checked by the parser: out of range is wrong usage.
void add_data(cli::App& app, DataFlags& flags);
/// Implies --classes from --mask-values, and these from the masks themselves. Errors: wrong usage; as
/// `find_mask_values`.
void take_mask_values(cli::App& app, DataFlags& flags);

struct Split {
    data::ImageSourcePointer training;
    data::ImageSourcePointer validation;
    /// In place of these in a rehearsal: samples of the same sizes, and errors for the same files.
    data::ImageSourcePointer rehearsed_training;
    data::ImageSourcePointer rehearsed_validation;
    std::string what;                                        ///< for people
    std::function<std::vector<std::string>()> skipped = {};  ///< as `cli::Program`'s
};

/// Files are decoded when batches need them. Errors: FileError for folders without images, images without masks, and as
/// `cli::look_through`; Error if no image is left to train on.
Split read_images(const DataFlags& flags);

/// Of text that has no problem.
std::vector<std::uint8_t> parse_mask_values(const std::string& text);

/// What is wrong with a value of --mask-values; empty if nothing is.
std::string mask_values_problem(const std::string& text);

/// Looks at the largest files of the masks that `flags` name, in which most is to be seen. Empty if their values are
/// classes; "0,255" if they are these two, but for --ignore. Errors: FileError for others, which says what to do; as
/// `data::MaskedImages`. Masks that can't be read say nothing.
std::string find_mask_values(const DataFlags& flags);

struct CloudOptions {
    std::int64_t height = 256;
    std::int64_t width = 256;
    std::int64_t classes = 3;
    double noise = 0.5;      ///< its deviation in each colour; the field's is 1
    std::int64_t first = 0;  ///< number of the first one
    std::int64_t count = 1;
    std::uint64_t seed = 0;
};

/// Clouds that are drawn, for a training without files: a smooth random field is the thickness of the clouds, its
/// levels are the classes of the mask, and the image shows it as the mix of blue and white, under noise. A pixel alone
/// says little of its class; its surroundings do. A cloud is a function of the seed and its number: clouds with other
/// numbers are others.
class Clouds final : public data::ImageSource {
  public:
    explicit Clouds(const CloudOptions& options) : options_(options) {}

    std::int64_t size() const override { return options_.count; }
    data::ImageSample load(std::int64_t index) const override;
    std::string name(std::int64_t index) const override;

  private:
    CloudOptions options_;
};

}  // namespace headroom::segmentation
