#pragma once
// A task whose batches a `DataLoader` reads: training data in a shuffled order, validation data once through. You write
// the model, its loss, and further figures of a validation.
//
//     class Digits final : public training::DataTask<data::ImageDataset> {
//       public:
//         Digits(Parameters& parameters, std::int64_t batch, const data::ImageDataset& training,
//                const data::ImageDataset& validation)
//             : DataTask(parameters, training::shuffled(training, validation, batch)), net_(nn::Path(parameters)) {}
//         Loss loss(const Batch& batch) override { return cross_entropy(net_(batch[0]), batch[1]); }
//         training::Validation validate(const training::ProgressCallback& watch) override {       // if not by the loss alone
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
// In a dry context batches are read as usual, but without threads, and of the validation data only the batches on which
// the memory depends.
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
#include <headroom/data/image_dataset.hpp>
#include <headroom/data/sampler.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/metrics.hpp>
#include <headroom/training/numbered_draws.hpp>
#include <headroom/training/task.hpp>

namespace headroom::training {

/// A batch as tensors: images [N, C, H, W] whose channels lie together, then labels [N], or masks [N, H, W] where there
/// are some.
std::vector<Tensor> upload(data::Feed& feed, const data::ImageBatch& batch);
/// Inputs and targets [N, T].
std::vector<Tensor> upload(data::Feed& feed, const data::TokenBatch& batch);
/// Features [N, F] and targets [N, M], or [N] for one target per sample.
std::vector<Tensor> upload(data::Feed& feed, const data::SampleBatch<std::int32_t>& batch);
std::vector<Tensor> upload(data::Feed& feed, const data::SampleBatch<float>& batch);

/// Calls `work` with what of a loader's batches is for this process, and then, where several train, `combine`. Errors:
/// those of `work`; FileError on all of them if a FileError has left it on one.
void share_validation(Context& context, const std::function<void(const data::DataShard&)>& work,
                      const std::function<void(Group&)>& combine);

/// The training data, the validation data, and their orders. A task keeps copies; copies of the library's data sets
/// share their samples.
template <data::Dataset D>
struct Datasets {
    D training;
    D validation;
    data::Sampler order;     ///< of the training data
    data::Sampler in_order;  ///< of the validation data
};

/// Each training sample once per epoch, in another order each time, without a smaller batch at the end; validation
/// samples in their order. Errors: Error if there are fewer training samples than a batch has.
template <data::Dataset D>
Datasets<D> shuffled(D training, D validation, std::int64_t batch, std::uint64_t seed = 0) {
    const auto order = data::Sampler::shuffled(training.size(), batch, seed, {.drop_last = true});
    const auto in_order = data::Sampler::sequential(validation.size(), batch);
    return {std::move(training), std::move(validation), order, in_order};
}

struct DataTaskOptions {
    int workers = 0;            ///< threads that read batches
    bool changed_data = false;  ///< as `TrainerOptions::changed_data`
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

    /// The mean of `loss`. Override it for more figures.
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

    /// The next batch of the training data; after the end of an epoch, of the next one. Valid until the next call.
    const HostBatch& next() {
        auto batch = loader_.next();
        while (!batch) batch = loader_.next();
        return *batch;
    }
    data::DataLoader<D>& loader() { return loader_; }
    /// Override it for batches of your own.
    virtual Batch to_tensors(const HostBatch& batch) {
        if constexpr (requires { upload(feed_, batch); }) {
            return upload(feed_, batch);
        } else {
            throw Error("DataTask: there is no upload for this kind of batch; override to_tensors");
        }
    }
    /// Calls `work` with each batch of the validation data, as tensors and as it was read. Where several processes
    /// train, each has its share of the batches, and in the end the figures of all: `combine(group)` of each is called.
    /// Errors: those of `work`; FileError on all processes if one can't read a batch.
    template <class... Figures, class Work>
    void each_validation_batch(const ProgressCallback& watch, const std::tuple<Figures&...>& figures,
                               const Work& work) {
        share_validation(
            context(), [&](const data::DataShard& share) { each_batch(watch, share, work); },
            [&](Group& group) { std::apply([&](Figures&... all) { (all.combine(group), ...); }, figures); });
    }
    /// The same for figures that can't be combined: each process has all of the batches.
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
    /// `share`: which of the validation data's batches `work` gets.
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

    /// With the first two batches and the last two, since the ones between are like the second.
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
