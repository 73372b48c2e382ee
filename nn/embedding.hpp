#pragma once
// A table of vectors, looked up by index.
//
//     nn::Embedding tokens(root / "tokens", 50257, 768);
//     Tensor x = tokens(ids);   // i32 or i64 [batch, time] -> [batch, time, 768]
//     nn::Embedding words(root / "words", 30522, 768, nullptr, 0);     // id 0 is padding
#include <cstdint>
#include <optional>

#include <headroom/nn/module.hpp>

namespace headroom::nn {

class Embedding : public Module<Embedding> {
  public:
    /// Row `padding_index` gets no gradient. It is initialised like the other rows, while PyTorch sets it to 0. Errors,
    /// at the call: ShapeError for an index outside of [0, count) or a padding_index outside of [-count, count).
    Embedding(const Path& path, std::int64_t count, std::int64_t width, Initializer initializer = nullptr,
              std::optional<std::int64_t> padding_index = {});
    /// ids [...] -> [..., width].
    Tensor forward(Tensor ids) const;

    Tensor weight;  ///< [count, width]; standard normal by default
    std::optional<std::int64_t> padding_index;
};

}  // namespace headroom::nn
