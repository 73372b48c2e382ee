#pragma once
// A policy decides about the values that a region of a model produces: keep them for backward, or drop and recompute
// them. It is attached to module paths by a pattern. The last matching pattern counts; for a value, the innermost
// enclosing region decides whose policy does not answer `inherit`. A policy is a list of rules, which can be printed
// and compared, or a function that sees the op and the bytes that it made.
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

/// What happens to the values of an op.
struct Answer {
    /// `inherit` leaves the decision to the enclosing region.
    enum Choice : std::uint8_t { inherit, keep, recompute };

    Choice choice = inherit;
    /// Of `recompute`: a value that backward has brought back is held until its last use. With a number, it is dropped
    /// once more where its next use is so many recorded ops away or more: what crosses a model from its beginning to
    /// its end, as in a U-Net.
    std::uint32_t drop_distance = 0;

    constexpr Answer(Choice choice = inherit, std::uint32_t drop_distance = 0)
        : choice(choice), drop_distance(drop_distance) {}  // NOLINT(google-explicit-constructor)
    friend constexpr bool operator==(const Answer&, const Answer&) = default;
};

/// The properties of a recorded op that a policy sees. Path, call and ordinal name it within a micro-batch: they are
/// the same in each one, whatever policies and autocast do.
struct Candidate {
    const OpInfo& info;
    std::string_view path;  ///< of the module whose call recorded it
    std::uint32_t call;     ///< which of the calls of that path: 0 is the first since the tape was empty; of the path
                            ///< "", 0 is what lies outside of modules
    std::uint32_t ordinal;  ///< its number in that call, among the ops that no inner module records; casts share the
                            ///< number of the op behind them
    std::size_t bytes;      ///< of its outputs, and of its own saved arrays
    std::size_t pinned_bytes;  ///< of inputs that would be kept for recomputing it alone
    std::uint32_t replays;     ///< the longest chain of ops that run to make it again: 1 if all inputs are kept
};

/// Which ops it is for, and the answer for these. What is left out fits every op.
struct Rule {
    std::string path = "**";  ///< a pattern, as in `path_matches`
    std::string op = {};      ///< the name
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
    /// May be called several times for one op; must depend on the candidate alone.
    using Function = std::function<Answer(const Candidate&)>;

    /// The last rule that fits an op answers; inherit if none does. Many rules of paths without `*` cost no more than
    /// one.
    explicit Policy(std::vector<Rule> rules);
    /// `name` stands for it where the policy is printed or compared; functions without one are equal to nothing.
    /// Errors: Error for an empty function.
    explicit Policy(Function function, std::string name = {});
    template <std::invocable<const Candidate&> F>
    Policy(F function) : Policy(Function(std::move(function))) {}  // NOLINT(google-explicit-constructor): a lambda

    Answer operator()(const Candidate& candidate) const;
    /// Empty if it is a function.
    const std::vector<Rule>& rules() const { return rules_; }
    /// A line for each rule, or the function's name.
    std::string to_string() const;
    friend bool operator==(const Policy& a, const Policy& b);

  private:
    class Index;
    Function function_;
    std::string name_;
    std::vector<Rule> rules_;
    std::shared_ptr<const Index> index_;
};

/// The same as no policy: undoes a broader pattern.
Policy inherit_all();
/// Keeps all values, also inside of a region that is recomputed.
Policy keep_all();
/// Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost": only what enters and leaves the region is kept.
Policy recompute_all();
/// Recomputes cheap ops that free at least twice the bytes that are kept instead, by two ops in a row at most: an
/// activation function, a norm, a join of two tensors if one of them is kept anyway; not a residual add, since an
/// operand would be kept in place of its output. Keeps the rest. Recomputes again for a use that is 16 ops away.
Policy recompute_cheap();

/// True if `path` ("blocks.3.mlp") matches: `*` stands for one segment, `**` for any number of them, none included.
bool path_matches(std::string_view pattern, std::string_view path);

}  // namespace headroom
