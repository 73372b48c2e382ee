#pragma once
// Draws a text's tokens one after the other from the logits that a model gives for the next one. `generate` does so for
// a GPT; this is for models of your own.
//
//     nn::TokenDraws draw(context, {.temperature = 0.8, .top_k = 40});
//     std::int32_t next = draw(logits);   // [vocabulary]
#include <cstdint>

#include <headroom/core/tensor.hpp>
#include <headroom/kernels/random/philox.hpp>

namespace headroom::nn {

struct SamplingOptions {
    double temperature = 1.0;  ///< 0: always the most probable token
    std::int64_t top_k = 0;    ///< only the k most probable; 0: all
};

class TokenDraws {
  public:
    /// Draws come from the context's random state. Errors: Error for options out of range.
    TokenDraws(Context& context, const SamplingOptions& options);
    /// `logits`: one for each token, of any floating dtype and shape. Waits for the device; in a dry context the result
    /// is 0. Errors: Error if there are no logits.
    std::int32_t operator()(const Tensor& logits);

  private:
    SamplingOptions options_;
    kernels::RandomKey key_;
    std::uint64_t draws_ = 0;
};

}  // namespace headroom::nn
