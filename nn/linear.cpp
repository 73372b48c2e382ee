#include <headroom/nn/linear.hpp>

#include <cmath>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

Linear::Linear(const Path& path, std::int64_t in, std::int64_t out, LinearOptions options)
    : Module(path),
      weight(path.parameter("weight", {out, in},
                            options.weight ? options.weight : init::kaiming_uniform(std::sqrt(5.0)))) {
    if (!options.bias) return;
    const double bound = in > 0 ? 1.0 / std::sqrt(static_cast<double>(in)) : 0.0;
    bias = path.parameter("bias", {out}, options.bias_values ? options.bias_values : init::uniform(-bound, bound));
}

Tensor Linear::forward(Tensor x) const {
    if (!adapter) return linear(std::move(x), weight, bias);
    Tensor added = adapter(x);
    return add(linear(std::move(x), weight, bias), std::move(added));
}

}  // namespace headroom::nn
