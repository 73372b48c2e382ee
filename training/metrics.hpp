#pragma once
// Figures of a validation, added up batch by batch.
//
//     training::MeanLoss loss;
//     training::Accuracy accuracy;
//     ...                                     // for each batch
//     loss.add(cross_entropy(logits, labels));
//     accuracy.add(logits, labels);
//     return training::Validation{.loss = loss.value(), .metrics = {accuracy.metric()}};
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/loss.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/training/task.hpp>

namespace headroom::training {

/// The mean of losses over all of their terms; NaN without terms.
struct MeanLoss {
    double total = 0;
    double terms = 0;

    /// Waits for the device.
    void add(const Loss& loss) {
        total += loss.sum().item();
        terms += loss.terms();
    }
    double value() const { return total / terms; }
};

/// The mean of losses over all of their terms, of batches that the processes of a context share out. They are added up
/// in the order of batches, so that each process has the bits that one has alone.
class SharedMean {
  public:
    /// The context outlives it.
    explicit SharedMean(Context& context) : context_(context) {}

    /// Of a loader, which batches are this process's.
    data::LoaderShare share() const;
    /// The next one of them. Waits for the device.
    void add(const Loss& loss);
    /// Calls `work`, which adds, and brings all processes together. Errors: those of `work`; FileError on all if a
    /// FileError has left it on one.
    void collect(const std::function<void()>& work);
    double value() const { return mean_.value(); }

  private:
    Context& context_;
    std::vector<MeanLoss> own_;
    MeanLoss mean_;
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
