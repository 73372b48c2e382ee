#include <headroom/nn/conv.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

namespace {

/// Of a layer from `in` to `out` channels; `rows` of the weight are those that begin its shape.
Tensor make_weight(const Path& path, const char* op, std::int64_t rows, std::int64_t columns, std::int64_t groups,
                   IntPair kernel, const LinearOptions& parameters) {
    if (rows < 1 || columns < 1 || kernel[0] < 1 || kernel[1] < 1) {
        throw ShapeError(fmt::format("{}: channels and kernel must be at least 1", op));
    }
    if (groups < 1 || rows % groups != 0 || columns % groups != 0) {
        throw ShapeError(fmt::format("{}: {} groups do not divide {} and {} channels", op, groups, rows, columns));
    }
    return path.parameter("weight", {rows, columns / groups, kernel[0], kernel[1]},
                          parameters.weight ? parameters.weight : init::kaiming_uniform(std::sqrt(5.0)),
                          MemoryFormat::channels_last);
}

/// [out]; undefined without.
Tensor make_bias(const Path& path, std::int64_t out, const Shape& weight, const LinearOptions& parameters) {
    if (!parameters.bias) return {};
    const double bound = 1.0 / std::sqrt(static_cast<double>(weight[1] * weight[2] * weight[3]));
    return path.parameter("bias", {out},
                          parameters.bias_values ? parameters.bias_values : init::uniform(-bound, bound));
}

}  // namespace

Conv2d::Conv2d(const Path& path, std::int64_t in, std::int64_t out, IntPair kernel, Conv2dOptions options_,
               LinearOptions parameters)
    : Module(path),
      weight(make_weight(path, "Conv2d", out, in, options_.groups, kernel, parameters)),
      bias(make_bias(path, out, weight.shape(), parameters)),
      options(options_) {}

Tensor Conv2d::forward(Tensor x) const { return conv2d(std::move(x), weight, bias, options); }

ConvTranspose2d::ConvTranspose2d(const Path& path, std::int64_t in, std::int64_t out, IntPair kernel,
                                 ConvTranspose2dOptions options_, LinearOptions parameters)
    : Module(path),
      weight(make_weight(path, "ConvTranspose2d", in, out, options_.groups, kernel, parameters)),
      bias(make_bias(path, out, weight.shape(), parameters)),
      options(options_) {}

Tensor ConvTranspose2d::forward(Tensor x) const { return conv_transpose2d(std::move(x), weight, bias, options); }

}  // namespace headroom::nn
