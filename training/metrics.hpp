#pragma once
// Validation metrics, accumulated batch by batch. When several processes share the batches, `combine` merges the
// results of all ranks on every rank; call it once, after the last batch. `DataTask::each_validation_batch` does so.
//
//     training::MeanLoss loss;
//     training::Accuracy accuracy;
//     ...                                     // for each batch
//     loss.add(cross_entropy(logits, labels));
//     accuracy.add(logits, labels);
//     return training::Validation{.loss = loss.value(), .metrics = {accuracy.metric()}};
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <headroom/core/group.hpp>
#include <headroom/core/loss.hpp>
#include <headroom/training/task.hpp>

namespace headroom::training {

/// The mean loss per term over all batches.
class MeanLoss {
  public:
    /// Adds the next batch's loss. Waits for the device.
    void add(const Loss& loss) { batches_.push_back({loss.sum().item(), loss.terms()}); }
    double terms() const { return total().terms; }
    /// Sums in batch order. NaN if there are no terms.
    double value() const { return total().sum / total().terms; }
    /// Merges the ranks' batches. Rank r must have added batches r, r + ranks, ... of the validation data. The result
    /// has the same bits as with one process.
    void combine(Group& group);

  private:
    struct Sum {
        double sum = 0;
        double terms = 0;
    };
    Sum total() const;

    std::vector<Sum> batches_;
};

/// The fraction of samples whose label has the largest logit.
class Accuracy {
  public:
    /// `logits` [..., classes], `labels` [...] i32 or i64; labels below 0 do not count. Waits for the device. Errors:
    /// ShapeError.
    void add(const Tensor& logits, const Tensor& labels);
    /// 0 if nothing was added.
    double value() const { return all_ > 0 ? right_ / all_ : 0; }
    /// Named "accuracy" in logs and "val_accuracy" in summaries.
    Metric metric() const { return {"accuracy", "val_accuracy", value()}; }
    void combine(Group& group);

  private:
    double right_ = 0;
    double all_ = 0;
};

/// The classes that occur in the validation data. If there is only one, a model that always predicts it scores 100%, so
/// reports include a note.
class ClassesSeen {
  public:
    explicit ClassesSeen(std::int64_t classes) : seen_(static_cast<std::size_t>(classes)) {}

    /// Labels below 0 do not count.
    void add(std::span<const std::int32_t> labels) {
        for (const std::int32_t label : labels)
            if (label >= 0) seen_[static_cast<std::size_t>(label)] = true;
    }

    bool any() const;
    void combine(Group& group);
    /// "only class cat occurs in it"; empty if several classes occur. `names` may be shorter than the number of
    /// classes, or empty.
    std::string note(const std::vector<std::string>& names = {}) const;

  private:
    std::vector<bool> seen_;
};

/// Counts of pixels (or samples) by true class and predicted class.
class ConfusionMatrix {
  public:
    explicit ConfusionMatrix(std::int64_t classes)
        : classes_(classes), counts_(static_cast<std::size_t>(classes * classes)) {}

    /// Adds predicted and true classes, one of each per pixel. Pixels with a negative true class are ignored. Errors:
    /// ShapeError if the lengths differ or a class is out of range.
    void add(std::span<const std::int64_t> predicted, std::span<const std::int32_t> truth);
    void combine(Group& group);

    std::int64_t count(std::int64_t truth, std::int64_t predicted) const {
        return counts_[static_cast<std::size_t>(truth * classes_ + predicted)];
    }
    /// The mean intersection over union over the classes that occur. A class's intersection is the number of pixels
    /// that have it in both truth and prediction; its union is the number that have it in either. 0 if no class occurs.
    double mean_iou() const;
    /// The fraction of correct predictions; 0 if nothing was added.
    double accuracy() const;

  private:
    std::int64_t classes_;
    std::vector<std::int64_t> counts_;  ///< [truth, predicted]
};

}  // namespace headroom::training
