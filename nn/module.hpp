#pragma once
// The base of modules, which are plain values without macros, parents or run-time type information. Calling a module
// opens the region of its path and runs `forward`. Modules are move-only, since parameters are registered once. A
// module may be called as long as its `Parameters` exist.
//
//     struct Mlp : nn::Module<Mlp> {
//         nn::Linear up, down;
//         Mlp(const nn::Path& path, std::int64_t width)
//             : Module(path), up(path / "up", width, 4 * width), down(path / "down", 4 * width, width) {}
//         Tensor forward(Tensor x) const { return down(gelu(up(std::move(x)))); }
//     };
#include <utility>

#include <headroom/core/context.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/path.hpp>

namespace headroom::nn {

template <class Derived>
class Module {
  public:
    explicit Module(const Path& path)
        : parameters_(path.parameters()), path_(path.context().module_path(path.path())) {}
    Module(Module&&) noexcept = default;
    Module& operator=(Module&&) noexcept = default;

    /// Calls Derived::forward in the region of this module's path. Errors of this library name the path.
    template <class... Inputs>
    auto operator()(Inputs&&... inputs) const {
        RegionScope scope(context(), path_);
        try {
            return static_cast<const Derived&>(*this).forward(std::forward<Inputs>(inputs)...);
        } catch (Error& error) {
            error.add_path(context().memory().path(path_));
            throw;
        }
    }

    /// Errors, as for a call: Error if the module has outlived its `Parameters` or was moved from.
    Context& context() const { return parameters().context(); }
    Parameters& parameters() const { return parameters_.get(); }
    /// True in training mode; evaluation switches dropout off (see Parameters::train).
    bool training() const { return parameters().training(); }
    PathId path() const { return path_; }

  private:
    ParametersRef parameters_;
    PathId path_;
};

}  // namespace headroom::nn
