#pragma once
// The base of modules: plain values without macros, parents or run-time type information. Calling a module opens the
// region of its path and runs `forward`. Move-only, since parameters are registered once. Modules and their
// `Parameters` live as long as each other.
//
//     struct Mlp : nn::Module<nn::Mlp> {
//         nn::Linear up, down;
//         nn::Mlp(nn::At at, std::int64_t width)
//             : Module(at), up(at / "up", width, 4 * width), down(at / "down", 4 * width, width) {}
//         Tensor forward(Tensor x) const { return down(gelu(up(std::move(x)))); }
//     };
#include <utility>

#include <headroom/core/context.hpp>
#include <headroom/nn/at.hpp>

namespace headroom::nn {

template <class Derived>
class Module {
  public:
    explicit Module(const At& at) : parameters_(&at.parameters()), path_(at.context().memory().intern(at.path())) {}
    Module(Module&&) noexcept = default;
    Module& operator=(Module&&) noexcept = default;

    /// Derived::forward in the region of this module's path.
    template <class... Inputs>
    auto operator()(Inputs&&... inputs) const {
        RegionScope scope(context(), path_);
        return static_cast<const Derived&>(*this).forward(std::forward<Inputs>(inputs)...);
    }

    Context& context() const { return parameters_->context(); }
    Parameters& parameters() const { return *parameters_; }
    /// True while the model trains; evaluation switches dropout off (see Parameters::train).
    bool training() const { return parameters_->training(); }
    PathId path() const { return path_; }

  private:
    Parameters* parameters_;
    PathId path_;
};

}  // namespace headroom::nn
