#pragma once
// A task that reads its batches through a `DataLoader`: training data in shuffled order, validation data once through.
// You write the model, its loss and any further validation metrics.
//
//     class Digits final : public training::DataTask<data::ImageDataset> {
//       public:
//         Digits(Parameters& parameters, std::int64_t batch, const data::ImageDataset& training,
//                const data::ImageDataset& validation)
//             : DataTask(parameters, training::shuffled(training, validation, batch)), net_(nn::Path(parameters)) {}
//         Loss loss(const Batch& batch) override { return cross_entropy(net_(batch[0]), batch[1]); }
//         training::Validation validate(const training::ProgressCallback& watch) override {       // for metrics
//             training::MeanLoss mean;
//             training::Accuracy accuracy;
//             each_validation_batch(watch, std::tie(mean, accuracy), [&](const Batch& batch, const data::ImageBatch&) {
//                 const Tensor logits = net_(batch[0]);
//                 mean.add(cross_entropy(logits, batch[1]));
//                 accuracy.add(logits, batch[1]);
//             });
//             return {.loss = mean.value(), .metrics = {accuracy.metric()}};
//         }
//
//       private:
//         Net net_;
//     };
//
// In a dry context batches are read without worker threads, and a validation reads only the batches that determine the
// memory.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/round_robin.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/data/sampler.hpp>
#include <headroom/data/upload.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/metrics.hpp>
#include <headroom/training/numbered_draws.hpp>
#include <headroom/training/task.hpp>

namespace headroom::training {

/// Calls `work` with this process's share of the batches, then `combine` if there are several processes. Errors: those
/// of `work`; a FileError on one process is thrown as a FileError on all.
void share_validation(Context& context, const std::function<void(const data::DataShard&)>& work,
                      const std::function<void(Group&)>& combine);

/// The training data, the validation data and the order of each. A task keeps copies of them; copies of the library's
/// datasets share their samples.
template <data::Dataset D>
struct Datasets {
    D training;
    D validation;
    data::Sampler order;     ///< of the training data
    data::Sampler in_order;  ///< of the validation data
};

/// Visits each training sample once per epoch, in a new order each time, and drops an incomplete last batch. Validation
/// samples keep their order. Errors: Error if there are fewer training samples than a batch needs.
template <data::Dataset D>
Datasets<D> shuffled(D training, D validation, std::int64_t batch, std::uint64_t seed = 0) {
    const auto order = data::Sampler::shuffled(training.size(), batch, seed, {.drop_last = true});
    const auto in_order = data::Sampler::sequential(validation.size(), batch);
    return {std::move(training), std::move(validation), order, in_order};
}

struct DataTaskOptions {
    int workers = 0;            ///< threads that read batches
    bool changed_data = false;  ///< see `TrainerOptions::changed_data`
};

template <data::Dataset D>
class DataTask : public Task {
  public:
    using HostBatch = typename D::Batch;

    Batch batch() override { return to_tensors(next()); }
    void divide(const data::DataShard& share) override { loader_.divide(share); }
    files::CheckpointPart order() override { return loader_; }
    std::int64_t batches_per_epoch() const override { return loader_.sampler().batches(); }
    std::int64_t validation_batches() const override { return data_.in_order.batches(); }

    /// Returns the mean of `loss`. Override it for more metrics.
    Validation validate(const ProgressCallback& watch) override {
        MeanLoss mean;
        each_validation_batch(watch, std::tie(mean),
                              [&](const Batch& batch, const HostBatch&) { mean.add(loss(batch)); });
        return {.loss = mean.value()};
    }

  protected:
    DataTask(Parameters& parameters, Datasets<D> data, DataTaskOptions options = {})
        : parameters_(parameters),
          data_(std::move(data)),
          workers_(parameters.context().dry() ? 0 : options.workers),
          loader_(data_.training, data_.order, {.workers = workers_, .changed_data = options.changed_data}),
          feed_(parameters.context()) {}

    /// The next training batch; continues with the next epoch after the end of one. Valid until the next call.
    const HostBatch& next() {
        auto batch = loader_.next();
        while (!batch) batch = loader_.next();
        return *batch;
    }
    data::DataLoader<D>& loader() { return loader_; }
    /// Override it for your own batch types.
    virtual Batch to_tensors(const HostBatch& batch) {
        if constexpr (requires { upload(feed_, batch); }) {
            return upload(feed_, batch);
        } else {
            throw Error("DataTask: there is no upload for this kind of batch; override to_tensors");
        }
    }
    /// Calls `work` for each validation batch, with its tensors and the batch as read. Several processes share the
    /// batches; afterwards `combine(group)` of each metric gives all processes the total. Errors: those of `work`;
    /// FileError on all processes if one can't read a batch.
    template <class... Figures, class Work>
    void each_validation_batch(const ProgressCallback& watch, const std::tuple<Figures&...>& figures,
                               const Work& work) {
        share_validation(
            context(), [&](const data::DataShard& share) { each_batch(watch, share, work); },
            [&](Group& group) { std::apply([&](Figures&... all) { (all.combine(group), ...); }, figures); });
    }
    /// The same for metrics without `combine`: every process evaluates all batches.
    template <class Work>
    void each_validation_batch(const ProgressCallback& watch, const Work& work) {
        each_batch(watch, {}, work);
    }

    Context& context() const { return parameters_.context(); }
    Parameters& parameters() const { return parameters_; }
    data::Feed& feed() { return feed_; }
    const D& validation() const { return data_.validation; }
    std::int64_t batch_size() const { return loader_.sampler().batch(); }

  private:
    /// `share`: the validation batches that `work` gets.
    template <class Work>
    void each_batch(const ProgressCallback& watch, const data::DataShard& share, const Work& work) {
        if (context().dry()) return rehearse_validation(share, work);
        data::DataLoader<D> loader(data_.validation, data_.in_order, {.workers = workers_, .epochs = 1});
        loader.divide(share);
        const std::int64_t batches = data_.in_order.batches();
        std::int64_t done = 0;
        while (const auto host = loader.next()) {
            const NumberedDraws draws(context(), NumberedDraws::Of::validations, done + share.rank);
            work(to_tensors(*host), *host);
            watch(std::min(done += share.ranks, batches), batches);
        }
    }

    /// Runs the first two and the last two batches only: the batches in between take the same memory as the second.
    template <class Work>
    void rehearse_validation(const data::DataShard& share, const Work& work) {
        HostBatch host;
        std::vector<std::int64_t> indices;
        const std::int64_t batches = round_robin_count(share.rank, share.ranks, data_.in_order.batches());
        for (std::int64_t place = 0; place < batches;
             place = place == 1 ? std::max<std::int64_t>(2, batches - 2) : place + 1) {
            const std::int64_t i = place * share.ranks + share.rank;
            data_.in_order.indices(0, i, indices);
            if constexpr (data::RandomDataset<D>)
                data_.validation.read(indices, data_.in_order.first_draw(0, i), host);
            else
                data_.validation.read(indices, host);
            work(to_tensors(host), host);
        }
    }

    Parameters& parameters_;
    Datasets<D> data_;
    int workers_;
    data::DataLoader<D> loader_;
    data::Feed feed_;
};

}  // namespace headroom::training
