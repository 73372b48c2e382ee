#pragma once
// The `Dataset` concept: a loader reads batches of samples from a dataset. Your own type is a dataset if it has the
// concept's three members. `MemoryDataset` holds data that fits into memory (images, tables); `TextWindows`
// (text_windows.hpp) is for language models. Batches are host vectors: copy them into tensors with your context.
//
//     const data::PixelScale scale{.mean = 0.13f, .std = 0.31f};
//     auto digits = data::MemoryDataset<int32_t>::images(pixels, {28, 28}, labels, scale);
//     auto [train, validation] = std::pair(digits.slice(0, 9000), digits.slice(9000, 1000));
//     data::SampleBatch<int32_t> batch;
//     train.read(std::vector<int64_t>{4, 2}, batch);  // batch.features is [2, 28, 28]
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace headroom::data {

/// A dataset whose `read` augments samples at random. The random numbers of sample `indices[i]` are a function of a
/// seed and of `first_draw + i`, which is unique among all samples that a loader draws (`Sampler::first_draw`).
template <class D>
concept RandomDataset = requires(const D& dataset, std::span<const std::int64_t> indices, std::uint64_t first_draw,
                                 typename D::Batch& batch) {
    dataset.read(indices, first_draw, batch);
};

/// Detects a `read` that takes its batch by value or by const reference, and so could not fill it.
template <class D>
concept FillsACopy = requires(const D& dataset, std::span<const std::int64_t> indices, const typename D::Batch& batch) {
    dataset.read(indices, batch);
}
|| requires(const D& dataset, std::span<const std::int64_t> indices, const typename D::Batch& batch) {
    dataset.read(indices, std::uint64_t{}, batch);
};

/// `read` fills `batch` with the samples of `indices`, in their order, and reuses the batch's memory. Several threads
/// call it at once, so it must not modify the dataset. Its exceptions reach the caller of the loader.
template <class D>
concept Dataset = std::default_initializable<typename D::Batch> && !FillsACopy<D> && requires(const D& dataset) {
    { dataset.size() } -> std::convertible_to<std::int64_t>;
}
&&(RandomDataset<D> || requires(const D& dataset, std::span<const std::int64_t> indices, typename D::Batch& batch) {
    dataset.read(indices, batch);
});

template <class Target>
struct SampleBatch {
    std::int64_t rows = 0;
    std::vector<float> features;  // [rows, ...shape of a sample]
    std::vector<Target> targets;  // [rows, targets per sample]
};

/// Converts bytes to features: (byte / 255 - mean) / std.
struct PixelScale {
    float mean = 0.0f;
    float std = 1.0f;
};

/// Samples in memory: f32 features (stored as f32, or as bytes with a scale) and targets, i32 for classes or f32 for
/// values. Copies and slices share the samples.
template <class Target>
class MemoryDataset {
  public:
    using Batch = SampleBatch<Target>;

    // Moves copy, so that no dataset is left without samples.
    MemoryDataset(const MemoryDataset&) = default;
    MemoryDataset& operator=(const MemoryDataset&) = default;
    /// `features` is [N, ...sample_shape], `targets` [N, M]; N is derived from the features. Errors: ShapeError if a
    /// dimension is below 1, there is no sample, or the sizes are not multiples of a sample's.
    MemoryDataset(std::vector<float> features, std::vector<std::int64_t> sample_shape, std::vector<Target> targets);
    /// As above for u8 `pixels`. Errors: also Error unless the scale is finite and its std positive.
    static MemoryDataset images(std::vector<std::uint8_t> pixels, std::vector<std::int64_t> sample_shape,
                                std::vector<Target> targets, PixelScale scale = {});

    std::int64_t size() const { return count_; }
    /// Shape of one sample's features.
    const std::vector<std::int64_t>& sample_shape() const { return storage_->sample_shape; }

    /// Errors: ShapeError for an index outside of [0, size()).
    void read(std::span<const std::int64_t> indices, Batch& batch) const;

    /// Samples [first, first + count). Errors: ShapeError if the range is empty or not within the dataset.
    MemoryDataset slice(std::int64_t first, std::int64_t count) const;

  private:
    using Features = std::variant<std::vector<float>, std::vector<std::uint8_t>>;
    struct Storage {
        Features features;
        std::vector<Target> targets;
        std::vector<std::int64_t> sample_shape;
        std::int64_t width;  // features per sample
        std::int64_t target_width;
        PixelScale scale;
    };

    MemoryDataset(Features features, std::vector<std::int64_t> sample_shape, std::vector<Target> targets,
                  PixelScale scale);

    std::shared_ptr<const Storage> storage_;
    std::int64_t first_ = 0;
    std::int64_t count_ = 0;
};

extern template class MemoryDataset<std::int32_t>;
extern template class MemoryDataset<float>;

}  // namespace headroom::data
