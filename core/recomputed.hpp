#pragma once
// Recomputation in code, for those who prefer it to policies by path.
//
//     Tensor x = recomputed(context, "encoder.lower", [&] { return gelu(lower(x0)); });
#include <string_view>
#include <utility>

#include <headroom/core/context.hpp>

namespace headroom {

/// `fn()`, in a region of that path: backward runs its ops again, and keeps only what enters it and the tensors that
/// the caller holds afterwards. Modules that are called in it keep their own paths. A policy that is attached to the
/// path goes before. Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost". Errors: those of `fn`.
template <class F>
decltype(auto) recomputed(Context& context, std::string_view path, F&& fn) {
    static const Policy again = recompute_all();
    const RegionScope scope(context, context.module_path(path), again);
    return std::forward<F>(fn)();
}

}  // namespace headroom
