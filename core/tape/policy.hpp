#pragma once
// What to do with the values that a region of a model produces: keep them for backward, or drop and recompute them. A
// policy is attached to module paths by a pattern; the last matching pattern counts, and for a value the innermost
// enclosing region whose policy answers other than `inherit` decides. A policy sees the op and the bytes of its outputs.
//
//     context.policy("blocks.*", recompute_all());
//     context.policy("blocks.*.attention", keep_all());
//     context.policy("**.mlp", recompute_if([](const OpInfo& op, std::size_t bytes) {
//         return op.cost == Cost::cheap && bytes > 1'000'000 ? Answer::recompute : Answer::inherit; }));
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include <headroom/core/op.hpp>

namespace headroom {

enum class Answer : std::uint8_t { inherit, keep, recompute };

/// Called once per recorded op with the bytes of its outputs; must depend on nothing else.
using Policy = std::function<Answer(const OpInfo& op, std::size_t bytes)>;

/// As if no policy were attached: undoes a broader pattern.
Policy inherit_all();
Policy keep_all();
/// Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost": only what enters and leaves the region is kept.
Policy recompute_all();
/// Recomputes what is cheap to compute again, keeps matrix products and attention.
Policy recompute_cheap();
Policy recompute_if(Policy decide);

/// True if `path` ("blocks.3.mlp") matches: `*` stands for one segment, `**` for any number of them, none included.
bool path_matches(std::string_view pattern, std::string_view path);

}  // namespace headroom
