#pragma once
// Figures of a validation, added up batch by batch. Where several processes share the batches out, `combine` makes of
// each one's figure that of all, on each of them; once, behind the last batch. `DataTask::each_validation_batch` calls
// it.
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

/// The mean of losses over all of their terms.
class MeanLoss {
  public:
    /// Of the next batch. Waits for the device.
    void add(const Loss& loss) { batches_.push_back({loss.sum().item(), loss.terms()}); }
    double terms() const { return total().terms; }
    /// NaN without terms. Added up in the order of batches.
    double value() const { return total().sum / total().terms; }
    /// Of `ranks` processes each has added every `ranks`-th batch, from that of its rank's number on. The value has the
    /// bits that one process gets.
    void combine(Group& group);

  private:
    struct Sum {
        double sum = 0;
        double terms = 0;
    };
    Sum total() const;

    std::vector<Sum> batches_;
};

/// The share of samples whose largest logit belongs to their label.
class Accuracy {
  public:
    /// `logits` [..., classes], `labels` [...] i32 or i64; labels below 0 do not count. Waits for the device. Errors:
    /// ShapeError.
    void add(const Tensor& logits, const Tensor& labels);
    /// 0 if nothing was added.
    double value() const { return all_ > 0 ? right_ / all_ : 0; }
    /// "accuracy", in summaries "val_accuracy".
    Metric metric() const { return {"accuracy", "val_accuracy", value()}; }
    void combine(Group& group);

  private:
    double right_ = 0;
    double all_ = 0;
};

/// The classes that occur in the validation data. If only one occurs, a model that always guesses it gets full marks;
/// people should know that.
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
    /// "only class cat occurs in it"; empty where several occur. `names` may lack some, or be empty.
    std::string note(const std::vector<std::string>& names = {}) const;

  private:
    std::vector<bool> seen_;
};

/// How many pixels (or samples) of each class were seen as each class.
class ConfusionMatrix {
  public:
    explicit ConfusionMatrix(std::int64_t classes)
        : classes_(classes), counts_(static_cast<std::size_t>(classes * classes)) {}

    /// Adds true and predicted classes, the same number of each; a pixel whose true class is negative does not count.
    /// Errors: ShapeError for different numbers, or a class that does not exist.
    void add(std::span<const std::int64_t> predicted, std::span<const std::int32_t> truth);
    void combine(Group& group);

    std::int64_t count(std::int64_t truth, std::int64_t predicted) const {
        return counts_[static_cast<std::size_t>(truth * classes_ + predicted)];
    }
    /// The mean intersection over union, over the classes that occur: the pixels that have the class in both truth and
    /// prediction, as a share of the pixels that have it in either; 0 if no class occurs.
    double mean_iou() const;
    /// The share that lies on the diagonal; 0 if nothing was added.
    double accuracy() const;

  private:
    std::int64_t classes_;
    std::vector<std::int64_t> counts_;  ///< [truth, predicted]
};

}  // namespace headroom::training
