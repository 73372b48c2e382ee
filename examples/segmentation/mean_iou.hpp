#pragma once
// How well predicted masks cover the true ones: for each class the pixels that have it in both, as a share of those
// that have it in either one.
//
//     MeanIou iou(classes);
//     iou.add(predicted, truth);     // of every batch
//     const double value = iou.mean();
#include <cstdint>
#include <span>
#include <vector>

namespace headroom::segmentation {

class MeanIou {
  public:
    explicit MeanIou(std::int64_t classes) : both_(static_cast<std::size_t>(classes)), either_(both_) {}

    /// Classes of as many pixels each; where the true one is negative, none counts.
    void add(std::span<const std::int64_t> predicted, std::span<const std::int32_t> truth);
    /// Over the classes that occur; 0 if none does.
    double mean() const;

  private:
    std::vector<std::int64_t> both_;
    std::vector<std::int64_t> either_;
};

}  // namespace headroom::segmentation
