#pragma once
// One training of a GPT on one context: model, optimizer, accumulator, data order. The same code rehearses on a dry
// context and trains on a real one, which is why the predicted peak is the real one.
//
//     Session session(context, flags, corpus);
//     for (int i = 0; i < 10; ++i) session.step();
//     double training_loss = session.results().back().loss;
//     double loss = session.evaluate();
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <headroom/data/data_loader.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/data/text.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/examples/gpt/flags.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/schedule.hpp>

namespace headroom::gpt {

class Session {
  public:
    /// `corpus` outlives the session.
    Session(Context& context, const GptFlags& flags, const data::TextCorpus& corpus);

    /// The most steps whose results are kept.
    static constexpr std::int64_t kKeptResults = 100;

    /// One optimizer step over `accumulate` micro-batches. Only queues it: what came of it, `results` says.
    void step();
    /// Steps done, skipped ones and those before a resume included.
    std::int64_t steps_done() const { return steps_done_; }
    /// Of the steps since the last call but the last `leave` ones; they are `kKeptResults` at most. Waits for the
    /// device to have done them. Errors: Error if the loss or the gradients of a step were not finite, naming it and
    /// the first module whose output was not; nothing was updated from that step on.
    std::vector<optim::StepResult> results(std::int64_t leave = 0);
    /// The number of steps whose results are unread.
    std::int64_t unread() const { return accumulator_.unread(); }
    std::int64_t tokens_per_step() const { return flags_.accumulate * flags_.batch * flags_.block; }

    /// Mean loss per token over the whole validation split, in evaluation mode.
    double evaluate();
    /// Text after the first line of the validation split, safe to print.
    std::string sample(std::int64_t tokens);

    void save(const std::string& path);
    /// Continues a saved training. Errors: FileError or Error if the file is of another model, text or data order.
    void resume(const std::string& path);
    /// SHA-256 over parameters, optimizer state and random position.
    std::string state_sha256();

    Context& context() { return context_; }
    std::int64_t parameters() const { return parameters_.count(); }
    /// Bytes that stay between steps: of parameters and optimizer state.
    std::size_t resident_bytes() const;

  private:
    class Description;
    /// Where a step found the data and the random numbers.
    struct Start {
        data::DataLoaderState order;
        std::uint64_t random_counter = 0;
    };

    /// Copies the batch to the device.
    Loss loss(const data::TokenBatch& batch);
    [[noreturn]] void explain_not_finite(std::int64_t step, const optim::StepResult& result, const Start& start);

    Context& context_;
    GptFlags flags_;
    const data::TextCorpus& corpus_;
    Parameters parameters_;
    nn::Gpt model_;
    optim::AdamW optimizer_;
    optim::GradientAccumulator accumulator_;
    optim::Schedule schedule_;
    data::TextWindows training_;
    data::TextWindows validation_;
    data::DataLoader<data::TextWindows> loader_;
    data::Feed feed_;
    std::int64_t steps_done_ = 0;
    std::deque<Start> unread_;  ///< of the steps that `results` would tell of
};

}  // namespace headroom::gpt
