#pragma once
// The images that train_detection is told to train on, drawn or read, with what makes batches of them.
//
//     const Images images = read_images(flags);                   // of DataFlags
//     const Examples training = images.training_set(flags);
//     data::DataLoader loader(training, data::Sampler::shuffled(training.size(), 2, seed), {.workers = 1});
//     const ExampleBatch& batch = *loader.next();                 // batch.images.images, batch.boxes, batch.labels
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <headroom/data/image_dataset.hpp>
#include <headroom/data/image_sample.hpp>
#include <headroom/examples/cli/images.hpp>

namespace headroom::detection {

struct DataFlags : cli::ImageFileFlags {
    std::string model = "maskrcnn";  ///< or "fasterrcnn", which needs no masks
    std::string data;                ///< folder with images; empty: shapes are drawn
    std::string annotations;         ///< COCO's JSON; empty: the one in the folder
    std::string labels;              ///< "ids" of categories, or their "order"; empty: order
    std::int64_t height = 128;       ///< pixels
    std::int64_t width = 128;
    std::int64_t classes = 0;     ///< the background among them; 0: as many as the data has
    std::int64_t images = 1000;   ///< to draw
    std::int64_t validation = 0;  ///< images; 0: 100 drawn ones, or a tenth of the data
    std::int64_t objects = 8;     ///< of an image

    bool masks() const { return model == "maskrcnn"; }
};

struct ShapesOptions {
    std::int64_t count = 0;
    std::int64_t height = 128, width = 128;
    std::int64_t most = 4;  ///< shapes in an image
    std::uint64_t seed = 0;
};

/// Images of drawn shapes for learning to detect: circles, rectangles and triangles of several sizes and colours on
/// noisy backgrounds, some in front of others. An image is drawn when it is loaded, on the loader's threads, and takes
/// no memory before. Image `index` is a function of the seed and of `index`. Each has 1 to `most` shapes, of which at
/// least half is to be seen; boxes and masks are of what is to be seen.
class Shapes : public data::ImageSource {
  public:
    /// By label.
    static constexpr std::array<const char*, 4> names{"background", "circle", "rectangle", "triangle"};
    /// Pixels of each side.
    static constexpr std::int64_t least_side = 16;

    /// Errors: ShapeError for images below `least_side`, no image, or no shape.
    explicit Shapes(const ShapesOptions& options);

    std::int64_t size() const override { return options_.count; }
    data::ImageSample load(std::int64_t index) const override;
    std::string name(std::int64_t index) const override;

  private:
    ShapesOptions options_;
};

struct ExampleBatch {
    data::ImageBatch images;           ///< and all of their objects
    std::vector<float> boxes;          ///< [rows, objects, 4]: x1, y1, x2, y2
    std::vector<std::int64_t> labels;  ///< [rows, objects]; 0: no object
    std::vector<std::uint8_t> masks;   ///< [rows, objects, height, width] of 0 and 1
};

struct ExampleOptions {
    std::int64_t objects = 0;  ///< of an image; where there are more, the largest
    bool masks = true;
};

/// Batches of images with their objects as arrays of a fixed size, whatever the number of objects: so each batch takes
/// the same memory, which a rehearsal can predict. Crowds are left out. Copies share the images.
class Examples {
  public:
    using Batch = ExampleBatch;

    /// Errors: Error unless there is a place for an object.
    Examples(data::ImageDataset images, const ExampleOptions& options);

    std::int64_t size() const { return images_.size(); }
    std::int64_t objects() const { return options_.objects; }

    /// Errors: as those of the images; Error for an object without a mask where masks are wanted.
    void read(std::span<const std::int64_t> indices, std::uint64_t first_draw, Batch& batch) const;

  private:
    void write(const std::vector<data::ImageObject>& objects, std::size_t row, Batch& batch) const;

    data::ImageDataset images_;
    ExampleOptions options_;
};

struct Images {
    data::ImageSourcePointer training;
    data::ImageSourcePointer validation;
    std::int64_t classes = 0;                                ///< the background among them
    std::string what;                                        ///< for people: which images these are
    std::vector<std::string> class_names = {};               ///< by label
    std::function<std::vector<std::string>()> skipped = {};  ///< as `cli::Program`'s

    /// The number of a class that the data does not name, since the flags ask for more classes.
    std::string name_of(std::int32_t label) const;
    /// Of the size in the flags, flipped at random.
    Examples training_set(const DataFlags& flags) const;
    /// Of the same size.
    Examples validation_set(const DataFlags& flags) const;
};

/// So many blank images without objects, for rehearsals: nothing is read or drawn.
Examples rehearsal_set(const DataFlags& flags, std::int64_t count);

/// Errors: FileError that names the file or folder; Error if no image is left to train on, or for fewer classes in the
/// flags than in the data.
Images read_images(const DataFlags& flags);

}  // namespace headroom::detection
