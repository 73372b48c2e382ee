#pragma once
// A policy decides about the values that a region of a model produces: keep them for backward, or drop and recompute
// them. It is attached to module paths by a pattern; the last matching pattern wins. For a value, the innermost
// enclosing region whose policy does not answer `inherit` decides. A policy is a list of rules, which can be printed
// and compared, or a function of the op and the bytes that it produced.
//
//     context.policy("blocks.*", recompute_all());
//     context.policy("blocks.*.attention", keep_all());
//     context.policy("", Policy({{.path = "blocks.3.mlp", .op = "gelu", .ordinal = 1, .answer = Answer::recompute}}));
//     context.policy("**.mlp", [](const Candidate& op) {
//         return op.pinned_bytes == 0 && op.bytes > 1'000'000 ? Answer::recompute : Answer::inherit; });
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headroom/core/op.hpp>

namespace headroom {

/// The `Answer::drop_distance`, in ops, of `recompute_cheap` and of plans.
inline constexpr std::uint32_t kLongDropDistance = 16;

/// The decision about an op's values.
struct Answer {
    /// `inherit` leaves the decision to the enclosing region.
    enum Choice : std::uint8_t { inherit, keep, recompute };

    Choice choice = inherit;
    /// Only for `recompute`. 0: a recomputed value is held until its last use. Otherwise it is dropped again if its
    /// next use is at least this many recorded ops away, for example a value that a skip connection carries across a
    /// whole U-Net.
    std::uint32_t drop_distance = 0;

    constexpr Answer(Choice choice = inherit, std::uint32_t drop_distance = 0)
        : choice(choice), drop_distance(drop_distance) {}  // NOLINT(google-explicit-constructor)
    friend constexpr bool operator==(const Answer&, const Answer&) = default;
};

/// The properties of a recorded op that a policy sees. Path, call and ordinal identify it within a micro-batch; they
/// are the same in every micro-batch, whatever policies and autocast do.
struct Candidate {
    const OpInfo& info;
    std::string_view path;  ///< path of the module whose call recorded it
    /// Index of that call among the path's calls since the tape was empty; for the path "", call 0 is everything
    /// outside modules.
    std::uint32_t call;
    /// Index of the op within that call, not counting ops of inner modules; a cast has the index of the op after it.
    std::uint32_t ordinal;
    std::size_t bytes;         ///< of its outputs and of its own saved arrays
    std::size_t pinned_bytes;  ///< of inputs that would be kept only to recompute it
    std::uint32_t replays;     ///< the longest chain of ops that recompute it: 1 if all inputs are kept
};

/// The ops that a rule applies to, and the answer for them. Unset fields match every op.
struct Rule {
    std::string path = "**";  ///< pattern, as in `path_matches`
    std::string op = {};      ///< name of the op
    std::optional<std::uint32_t> call = {};
    std::optional<std::uint32_t> ordinal = {};
    Answer answer = {};

    bool fits(const Candidate& candidate) const;
    /// "blocks.3.mlp gelu call 0 op 1: recompute"
    std::string to_string() const;
    friend bool operator==(const Rule&, const Rule&) = default;
};

class Policy {
  public:
    /// It may be called several times for an op, and its answer must depend on the candidate only.
    using Function = std::function<Answer(const Candidate&)>;

    /// The last matching rule answers; `inherit` if none matches. Many rules for paths without `*` cost no more than
    /// one.
    explicit Policy(std::vector<Rule> rules);
    /// `name` identifies the function when the policy is printed or compared; functions without a name never compare
    /// equal. Errors: Error for an empty function.
    explicit Policy(Function function, std::string name = {});
    template <std::invocable<const Candidate&> F>
    Policy(F function) : Policy(Function(std::move(function))) {}  // NOLINT(google-explicit-constructor): a lambda

    Answer operator()(const Candidate& candidate) const;
    /// Empty if the policy is a function.
    const std::vector<Rule>& rules() const { return rules_; }
    /// One line per rule, or the function's name.
    std::string to_string() const;
    friend bool operator==(const Policy& a, const Policy& b);

  private:
    class Index;
    Function function_;
    std::string name_;
    std::vector<Rule> rules_;
    std::shared_ptr<const Index> index_;
};

/// Same as no policy: undoes a broader pattern.
Policy inherit_all();
/// Keeps all values, even inside a recomputed region.
Policy keep_all();
/// Keeps only the values that enter or leave the region. Method: Chen et al. 2016, "Training Deep Nets with Sublinear
/// Memory Cost".
Policy recompute_all();
/// Recomputes cheap ops that free at least twice the bytes that are kept instead, with chains of at most two ops: an
/// activation function, a norm, or the concatenation of two tensors of which one is kept anyway. Keeps everything else.
/// This includes residual additions, since recomputing one would keep an operand in place of the output. Drops a value
/// again if its next use is 16 or more ops away.
Policy recompute_cheap();

/// True if `path` ("blocks.3.mlp") matches: `*` stands for one segment, `**` for any number of segments, including
/// none.
bool path_matches(std::string_view pattern, std::string_view path);

}  // namespace headroom
