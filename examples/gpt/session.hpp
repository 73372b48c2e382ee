#pragma once
// One training of a GPT on one context: model, optimizer, window, data order. The same code rehearses on a dry context
// and trains on a real one, which is why the predicted peak is the real one.
//
//     Session session(context, flags, corpus);
//     StepResult result = session.step();
//     double loss = session.evaluate();
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <headroom/data/loader.hpp>
#include <headroom/data/text.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/examples/gpt/flags.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/schedule.hpp>
#include <headroom/optim/window.hpp>

namespace headroom::gpt {

class Session {
  public:
    /// `corpus` outlives the session.
    Session(Context& context, const GptFlags& flags, const TextCorpus& corpus);

    /// One optimizer step over `accumulate` micro-batches. Errors: Error if the loss or the gradients are not finite,
    /// naming the step and the first module whose output was not.
    StepResult step();
    /// Optimizer steps done, those before a resume included.
    std::int64_t steps_done() const { return optimizer_.steps() + skipped_; }
    std::int64_t tokens_per_step() const { return flags_.accumulate * flags_.batch * flags_.block; }

    /// Mean loss per token over the whole validation split, in evaluation mode; at most `batches` batches if given.
    double evaluate(std::optional<std::int64_t> batches = std::nullopt);
    /// Text after the first line of the validation split, safe to print.
    std::string sample(std::int64_t tokens);

    void save(const std::string& path);
    /// Continues a saved training. Errors: FileError or Error if the file is of another model, text or data order.
    void resume(const std::string& path);
    /// SHA-256 over parameters, optimizer state and random position.
    std::string state_sha256();

    Context& context() { return context_; }
    std::int64_t parameters() const { return parameters_.count(); }
    /// Bytes of parameters, gradients and optimizer state.
    std::size_t resident_bytes() const;

  private:
    Tensor loss(const TokenBatch& batch);
    [[noreturn]] void explain_not_finite(const StepResult& result);

    Context& context_;
    GptFlags flags_;
    const TextCorpus& corpus_;
    Parameters parameters_;
    Gpt model_;
    AdamW optimizer_;
    Window window_;
    Schedule schedule_;
    TextWindows training_;
    TextWindows validation_;
    Loader<TextWindows> loader_;
    std::int64_t skipped_ = 0;  ///< steps that the loss scale gave up
    std::vector<TokenBatch> window_batches_;
    std::uint64_t window_counter_ = 0;  ///< random position at the window's begin
};

}  // namespace headroom::gpt
