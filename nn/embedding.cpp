#include <headroom/nn/embedding.hpp>

#include <headroom/core/ops/embedding.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

Embedding::Embedding(const Path& path, std::int64_t count, std::int64_t width, Initializer initializer,
                     std::optional<std::int64_t> padding_index)
    : Module(path),
      weight(path.parameter("weight", {count, width}, initializer ? initializer : init::normal())),
      padding_index(padding_index) {}

Tensor Embedding::forward(Tensor ids) const { return embedding(weight, std::move(ids), padding_index); }

}  // namespace headroom::nn
