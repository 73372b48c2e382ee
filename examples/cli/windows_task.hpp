#pragma once
// A task whose batches are windows over tokens: what models of language have in common, whatever they guess.
//
//     class GptTask final : public cli::WindowsTask<data::TextWindows> {
//       public:
//         GptTask(...) : WindowsTask(parameters, cli::next_tokens(corpus, flags, batch), flags), model_(...) {}
//         Loss loss(const Batch& batch) override { return model_.loss(batch[0], batch[1]); }
//         std::string sample() override { ... }
//     };
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/data/text_windows.hpp>
#include <headroom/examples/cli/corpus.hpp>
#include <headroom/training/data_task.hpp>

namespace headroom::cli {

/// For guessing each next token: random windows of the flags' block, and all of the validation split once.
inline training::Datasets<data::TextWindows> next_tokens(const Corpus& corpus, const TextFlags& flags,
                                                         std::int64_t batch) {
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
class WindowsTask : public training::DataTask<Windows> {
  public:
    void end() final {
        const std::string text = sample();
        if (!text.empty() && !this->context().dry()) fmt::print("\n{}\n\n", text);
    }

  protected:
    WindowsTask(Parameters& parameters, training::Datasets<Windows> windows, const Flags& flags)
        : training::DataTask<Windows>(parameters, std::move(windows), {.changed_data = flags.trainer.changed_data}) {}

    /// Text to print after the last step, or nothing.
    virtual std::string sample() = 0;
};

}  // namespace headroom::cli
