#include <headroom/nn/embedding.hpp>

#include <headroom/core/ops/embedding.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

Embedding::Embedding(const At& at, std::int64_t count, std::int64_t width, Initializer initializer)
    : Module(at), weight(at.parameter("weight", {count, width}, initializer ? initializer : init::normal())) {}

Tensor Embedding::forward(Tensor ids) const { return embedding(weight, std::move(ids)); }

}  // namespace headroom::nn
