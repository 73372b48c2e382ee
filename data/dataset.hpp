#pragma once
// A loader reads a dataset: it has a number of samples and fills batches of them. Your own type is a dataset if it has
// the three members of the concept; `MemoryDataset` is one for what fits into memory (images, tables), and
// `TextWindows` (text_windows.hpp) for language. Batches are host vectors: copy them into a tensor with your context.
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

/// `read` changes samples at random. The random numbers of sample `indices[i]` are a function of a seed and of
/// `first_draw + i`, which is unique among the samples that a loader takes (`Sampler::first_draw`).
template <class D>
concept RandomDataset = requires(const D& dataset, std::span<const std::int64_t> indices, std::uint64_t first_draw,
                                 typename D::Batch& batch) {
    dataset.read(indices, first_draw, batch);
};

/// A `read` that takes its batch by value, or as one that can't change, would fill nothing.
template <class D>
concept FillsACopy = requires(const D& dataset, std::span<const std::int64_t> indices, const typename D::Batch& batch) {
    dataset.read(indices, batch);
}
|| requires(const D& dataset, std::span<const std::int64_t> indices, const typename D::Batch& batch) {
    dataset.read(indices, std::uint64_t{}, batch);
};

/// `read` fills `batch` with the samples of `indices`, in their order, and reuses its memory. Several threads call it
/// at once, so it must not write to the dataset. Its exceptions reach the caller of the loader.
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

/// Makes features of bytes: (byte / 255 - mean) / std.
struct PixelScale {
    float mean = 0.0f;
    float std = 1.0f;
};

/// Samples in memory: features f32 (kept as f32, or as bytes with a scale), and targets, i32 for classes or f32 for
/// values. Copies and slices share the samples.
template <class Target>
class MemoryDataset {
  public:
    using Batch = SampleBatch<Target>;

    // Moves are copies, so that no dataset is without samples.
    MemoryDataset(const MemoryDataset&) = default;
    MemoryDataset& operator=(const MemoryDataset&) = default;
    /// `features` is [N, ...sample_shape], `targets` [N, M]; N is derived from the features. Errors: ShapeError if a
    /// dimension is below 1, there is no sample, or the sizes don't divide.
    MemoryDataset(std::vector<float> features, std::vector<std::int64_t> sample_shape, std::vector<Target> targets);
    /// The same, for `pixels` u8. Errors: also Error unless the scale is finite and its std positive.
    static MemoryDataset images(std::vector<std::uint8_t> pixels, std::vector<std::int64_t> sample_shape,
                                std::vector<Target> targets, PixelScale scale = {});

    std::int64_t size() const { return count_; }
    /// Shape of one sample's features, without the number of samples.
    const std::vector<std::int64_t>& sample_shape() const { return storage_->sample_shape; }

    /// Errors: ShapeError for an index outside of [0, size()).
    void read(std::span<const std::int64_t> indices, Batch& batch) const;

    /// Samples [first, first + count). Errors: ShapeError outside of the dataset, or for none.
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
