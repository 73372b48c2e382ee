#pragma once
// A table of vectors, looked up by index.
//
//     nn::Embedding tokens(root / "tokens", 50257, 768);
//     Tensor x = tokens(ids);   // i32 or i64 [batch, time] -> [batch, time, 768]
#include <cstdint>

#include <headroom/nn/module.hpp>

namespace headroom::nn {

class Embedding : public Module<Embedding> {
  public:
    /// Errors at the call: ShapeError for an index outside of [0, count).
    Embedding(const Path& path, std::int64_t count, std::int64_t width, Initializer initializer = nullptr);
    /// ids [...] -> [..., width].
    Tensor forward(Tensor ids) const;

    Tensor weight;  ///< [count, width]; standard normal unless said otherwise
};

}  // namespace headroom::nn
