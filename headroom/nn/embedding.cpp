#include <headroom/nn/embedding.hpp>

#include <headroom/core/ops/embedding.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

Embedding::Embedding(const Path& path, std::int64_t count, std::int64_t width, Initializer initializer)
    : Module(path), weight(path.parameter("weight", {count, width}, initializer ? initializer : init::normal())) {}

Tensor Embedding::forward(Tensor ids) const { return embedding(weight, std::move(ids)); }

}  // namespace headroom::nn
