#pragma once
// Batches of images with their objects as arrays of a fixed size, whatever the number of objects: so each batch takes
// the same memory, which a rehearsal can predict.
//
//     const Examples training(images, {.objects = 8, .masks = true});  // of a data::ImageDataset
//     data::DataLoader loader(training, data::Sampler::shuffled(training.size(), 2, seed), {.workers = 1});
//     const ExampleBatch& batch = *loader.next();  // batch.images.images, batch.boxes, batch.labels, batch.masks
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <headroom/data/image_dataset.hpp>

namespace headroom::detection {

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

/// Crowds are left out. Copies share the images.
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

}  // namespace headroom::detection
