#pragma once
// A policy decides about the values that a region of a model produces: keep them for backward, or drop and recompute
// them. It is attached to module paths by a pattern. The last matching pattern counts; for a value, the innermost
// enclosing region decides whose policy does not answer `inherit`. A policy sees the op and the bytes that it made.
//
//     context.policy("blocks.*", recompute_all());
//     context.policy("blocks.*.attention", keep_all());
//     context.policy("**.mlp", [](const Candidate& op) {
//         return op.pinned_bytes == 0 && op.bytes > 1'000'000 ? Answer::recompute : Answer::inherit; });
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include <headroom/core/op.hpp>

namespace headroom {

/// What happens to the values of an op; `inherit` leaves the decision to the enclosing region.
enum class Answer : std::uint8_t { inherit, keep, recompute };

/// The properties of a recorded op that a policy sees.
struct Candidate {
    const OpInfo& info;
    std::size_t bytes;         ///< of its outputs, and of its own saved arrays
    std::size_t pinned_bytes;  ///< of inputs that would be kept for recomputing it alone
    std::uint32_t replays;     ///< the longest chain of ops that run to make it again: 1 if all inputs are kept
};

/// May be called several times for one op; must depend on the candidate alone.
using Policy = std::function<Answer(const Candidate&)>;

/// The same as no policy: undoes a broader pattern.
Policy inherit_all();
/// Keeps all values, also inside of a region that is recomputed.
Policy keep_all();
/// Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost": only what enters and leaves the region is kept.
Policy recompute_all();
/// Recomputes cheap ops that free at least twice the bytes that are kept instead, by two ops in a row at most: an
/// activation function, a norm, a join of two tensors if one of them is kept anyway; not a residual add, since an
/// operand would be kept in place of its output. Keeps the rest.
Policy recompute_cheap();

/// True if `path` ("blocks.3.mlp") matches: `*` stands for one segment, `**` for any number of them, none included.
bool path_matches(std::string_view pattern, std::string_view path);

}  // namespace headroom
