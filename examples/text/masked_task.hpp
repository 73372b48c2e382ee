#pragma once
// A BERT that guesses hidden tokens of a text, as a training program's task.
//
//     text::MaskedTask task(parameters, flags, /*batch=*/64, corpus, {.vocabulary = corpus.vocabulary, .block = 32});
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/examples/cli/corpus.hpp>
#include <headroom/examples/cli/weights.hpp>
#include <headroom/examples/cli/windows_task.hpp>
#include <headroom/nn/bert.hpp>
#include <headroom/nn/bert_names.hpp>

namespace headroom::text {

/// The same tokens are hidden each time. Random numbers that hide none of a tiny text, which would have no loss, are
/// passed over.
inline data::MaskedWindows validation_windows(const cli::Corpus& corpus, const cli::TextFlags& flags) {
    for (std::uint64_t seed = 0;; ++seed) {
        const data::MaskedWindows windows(corpus.split.validation, flags.block, *corpus.special, {.seed = seed});
        data::DataLoader loader(windows, data::Sampler::sequential(windows.size(), 1), {.epochs = 1});
        while (const data::TokenBatch* batch = loader.next())
            if (std::ranges::any_of(batch->targets, [](std::int32_t token) { return token >= 0; })) return windows;
    }
}

/// To train, windows in another order in each epoch, with other tokens hidden each time.
inline training::Datasets<data::MaskedWindows> hidden_tokens(const cli::Corpus& corpus, const cli::TextFlags& flags,
                                                             std::int64_t batch) {
    const data::MaskedWindowsOptions options{.seed = flags.seed};
    const data::MaskedWindows training(corpus.split.train, flags.block, *corpus.special, options);
    const data::MaskedWindows validation = validation_windows(corpus, flags);
    return {training, validation, data::Sampler::shuffled(training.size(), batch, flags.seed, {.drop_last = true}),
            data::Sampler::sequential(validation.size(), batch)};
}

class MaskedTask final : public cli::WindowsTask<data::MaskedWindows> {
  public:
    MaskedTask(Parameters& parameters, const cli::TextFlags& flags, std::int64_t batch, const cli::Corpus& corpus,
               const nn::BertOptions& options)
        : WindowsTask(parameters, hidden_tokens(corpus, flags, batch), flags),
          flags_(flags),
          corpus_(corpus),
          model_(nn::Path(parameters), options) {}

    void begin() override {
        if (flags_.from.empty()) return;
        cli::note_report(flags_, flags_.from, nn::load_bert(flags_.from, parameters(), /*partial=*/true));
    }

    Loss loss(const Batch& batch) override { return model_.loss(batch[0], batch[1]); }

    training::Validation validate(const training::ProgressCallback& watch) override {
        training::MeanLoss mean;
        training::Accuracy accuracy;
        each_validation_batch(watch, std::tie(mean, accuracy), [&](const Batch& batch, const data::TokenBatch&) {
            const Tensor logits = model_(batch[0]);
            mean.add(cross_entropy(logits, batch[1]));
            accuracy.add(logits, batch[1]);
        });
        return {.loss = mean.value(), .metrics = {accuracy.metric()}};
    }

    /// Text of the validation split as the model is given it, then with its guesses.
    std::string sample() override {
        if (flags_.sample == 0) return "";
        std::vector<std::int32_t> given, filled_in;
        const std::int64_t shown = flags_.block - 2;
        const std::int64_t windows =
            std::min(validation().size(), flags_.sample / shown + (flags_.sample % shown != 0));
        data::TokenBatch host;
        for (std::int64_t first = 0; first < windows; first += batch_size()) {
            std::vector<std::int64_t> chosen(static_cast<std::size_t>(std::min(batch_size(), windows - first)));
            std::iota(chosen.begin(), chosen.end(), first);
            validation().read(chosen, static_cast<std::uint64_t>(first), host);
            const auto guesses = argmax(model_(to_tensors(host)[0]), -1).to_vector<std::int64_t>();
            for (std::size_t i = 0; i < host.inputs.size(); ++i) {
                const std::int64_t place = static_cast<std::int64_t>(i) % flags_.block;
                if (place == 0 || place == flags_.block - 1) continue;  // [CLS] and [SEP]
                const std::int32_t given_id = host.inputs[i];
                given.push_back(given_id);
                filled_in.push_back(host.targets[i] < 0 ? given_id : static_cast<std::int32_t>(guesses[i]));
            }
        }
        for (std::vector<std::int32_t>* const tokens : {&given, &filled_in})
            tokens->resize(std::min(tokens->size(), static_cast<std::size_t>(flags_.sample)));
        return fmt::format("given:\n{}\n\nfilled in:\n{}", corpus_.decode(given), corpus_.decode(filled_in));
    }

    std::string describe() const override {
        const nn::BertOptions& model = model_.bert.options;
        const nlohmann::json json{{"model",
                                   {{"kind", "bert"},
                                    {"vocabulary", model.vocabulary},
                                    {"block", flags_.block},
                                    {"positions", model.block},
                                    {"layers", model.layers},
                                    {"heads", model.heads},
                                    {"width", model.width},
                                    {"hidden", model.hidden},
                                    {"dropout", model.dropout}}},
                                  {"vocabulary", corpus_.description}};
        return json.dump();
    }

  private:
    const cli::TextFlags& flags_;
    const cli::Corpus& corpus_;
    nn::BertForMaskedLm model_;
};

}  // namespace headroom::text
