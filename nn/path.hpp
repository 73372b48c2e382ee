#pragma once
// A path in a model, with the `Parameters` to register with. A module is built at a path, its members at paths below
// it. Paths name parameters in files, select policies and group the bytes in reports.
//
//     Parameters parameters(context);
//     nn::Path root = parameters;
//     nn::Linear up(root / "mlp" / "up", 128, 512);       // "mlp.up.weight", "mlp.up.bias"
//     nn::TransformerBlock block(root / "blocks" / 3, config);
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <headroom/core/parameters.hpp>

namespace headroom::nn {

class Path {
  public:
    /// The model's own path. Implicit, so that `Net net(parameters)` makes a model.
    Path(Parameters& parameters) : parameters_(&parameters) {}  // NOLINT(google-explicit-constructor)

    /// The path `name` below this one; `name` must not contain a dot.
    Path operator/(std::string_view name) const;
    Path operator/(std::int64_t index) const { return *this / std::to_string(index); }

    Tensor parameter(std::string_view name, const Shape& shape, Initializer initializer,
                     MemoryFormat format = MemoryFormat::contiguous) const;
    /// Registers a buffer, such as a running statistic, which is saved but not optimised.
    Tensor buffer(std::string_view name, const Shape& shape, Initializer initializer, Dtype dtype = Dtype::f32) const;

    Parameters& parameters() const { return *parameters_; }
    Context& context() const { return parameters_->context(); }
    /// The whole path; it begins with the name of the parameters, if they have one.
    std::string path() const { return parameters_->full_path(path_); }

  private:
    Parameters* parameters_;
    std::string path_;  ///< below the parameters' name
};

}  // namespace headroom::nn
