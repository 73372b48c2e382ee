#pragma once
// A task whose batches are windows over tokens: what models of language have in common, whatever they guess.
//
//     class GptTask final : public text::WindowsTask<data::TextWindows> {
//       public:
//         GptTask(...) : WindowsTask(parameters.context(), text::next_tokens(corpus, flags, batch), flags), model_(...) {}
//         Loss loss(const Batch& batch) override { return model_.loss(batch[0], batch[1]); }
//         ...
//     };
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <headroom/data/data_loader.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/examples/program/task.hpp>
#include <headroom/examples/text/corpus.hpp>

namespace headroom::text {

/// Windows to train and to validate on, and their order.
template <class Windows>
struct WindowsData {
    Windows training, validation;
    data::Sampler order, in_order;
};

/// For guessing each next token: random windows of the flags' block, and all of the validation split once.
inline WindowsData<data::TextWindows> next_tokens(const Corpus& corpus, const TextFlags& flags, std::int64_t batch) {
    const data::TextWindows training(corpus.split.train, flags.block, data::WindowStart::every_token);
    const data::TextWindows validation(corpus.split.validation, flags.block, data::WindowStart::every_block);
    return {training, validation, data::Sampler::with_replacement(training.size(), batch, flags.seed),
            validation.in_order(batch)};
}

/// What a sample begins with: the first tokens of the validation split.
inline std::vector<std::int32_t> prompt(const Corpus& corpus, const TextFlags& flags) {
    const data::TokenView text = corpus.split.validation;
    std::vector<std::int32_t> first(static_cast<std::size_t>(std::min(text.size(), flags.block / 2 + 1)));
    text.copy(0, first);
    return first;
}

template <class Windows>
class WindowsTask : public program::Task {
  public:
    Batch batch() override { return upload(program::next_batch(loader_)); }
    nn::CheckpointPart order() override { return loader_; }

    program::Validation evaluate(const program::Watch& watch) override {
        program::MeanLoss mean;
        for_validation(watch, [&](const Batch& batch) { mean.add(loss(batch)); });
        return {.loss = mean.value(), .metric = std::nullopt};
    }

    std::int64_t validation_batches() const override { return data_.in_order.batches(); }

  protected:
    WindowsTask(Context& context, WindowsData<Windows> data, const program::Flags& flags)
        : data_(std::move(data)),
          loader_(data_.training, data_.order, {.changed_data = flags.changed_data}),
          feed_(context) {}

    /// Calls `work` with each batch of the validation split, or of its first windows.
    template <class Work>
    void for_validation(const program::Watch& watch, const Work& work,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
        const bool all = most >= data_.validation.size();
        data::DataLoader<Windows> loader(data_.validation,
                                         all ? data_.in_order : data::Sampler::sequential(most, data_.in_order.batch()),
                                         {.epochs = 1});
        program::each_batch(loader, watch, [&](const data::TokenBatch& batch) { work(upload(batch)); });
    }

  private:
    Batch upload(const data::TokenBatch& batch) {
        const Shape shape{batch.rows, batch.length};
        const auto [inputs, targets] = feed_.upload({{batch.inputs, shape}, {batch.targets, shape}});
        return {inputs, targets};
    }

    WindowsData<Windows> data_;
    data::DataLoader<Windows> loader_;
    data::Feed feed_;
};

}  // namespace headroom::text
