#pragma once
// Samples the tokens of a text one by one from a model's logits. `generate` does this for a GPT; use `TokenDraws` with
// your own models.
//
//     nn::TokenDraws draw(context, {.temperature = 0.8, .top_k = 40});
//     std::int32_t next = draw(logits);   // [vocabulary]
#include <cstdint>

#include <headroom/core/tensor.hpp>
#include <headroom/kernels/random/philox.hpp>

namespace headroom::nn {

struct SamplingOptions {
    double temperature = 1.0;  ///< 0: always the most probable token
    std::int64_t top_k = 0;    ///< draws from the k most probable tokens; 0: from all
};

class TokenDraws {
  public:
    /// Draws from the context's random state. Errors: Error for options out of range.
    TokenDraws(Context& context, const SamplingOptions& options);
    /// `logits`: one per token, of any floating dtype and shape. Waits for the device; returns 0 in a dry context.
    /// Errors: Error if there are no logits.
    std::int32_t operator()(const Tensor& logits);

  private:
    SamplingOptions options_;
    kernels::RandomKey key_;
    std::uint64_t draws_ = 0;
};

}  // namespace headroom::nn
