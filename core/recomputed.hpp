#pragma once
// Recomputation written in code, as an alternative to policies by path.
//
//     Tensor x = recomputed(context, "encoder.lower", [&] { return gelu(lower(x0)); });
#include <string_view>
#include <utility>

#include <headroom/core/context.hpp>

namespace headroom {

/// Runs `fn()` in a region of that path. Backward runs its ops again and keeps only the region's inputs and the tensors
/// that the caller still holds. Modules called inside keep their own paths. A policy attached to the path takes
/// precedence. Method: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost". Errors: whatever `fn` throws.
template <class F>
decltype(auto) recomputed(Context& context, std::string_view path, F&& fn) {
    static const Policy again = recompute_all();
    const RegionScope scope(context, context.module_path(path), again);
    return std::forward<F>(fn)();
}

}  // namespace headroom
