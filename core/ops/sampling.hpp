#pragma once
// Random permutations, and categories drawn by weight. For random values see create.hpp; for a model's next token see
// nn/sampling.hpp.
//
//     Tensor order = randperm(context, 60000);
//     Tensor classes = multinomial(softmax(logits), 5);        // [8, 65] -> [8, 5], no class twice
//
// Recorded with a key from `Context::next_random`, so a recomputed region draws the same values.
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Randperm {
    static constexpr OpInfo info{.name = "randperm"};
    struct Attrs {
        std::int64_t n = 0;
        kernels::RandomKey key;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs);
    static std::vector<Sample<Attrs>> samples();
};

struct Multinomial {
    static constexpr OpInfo info{.name = "multinomial", .precision = Precision::full};
    struct Attrs {
        std::int64_t draws = 1;
        bool replacement = false;
        kernels::RandomKey key;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& weights);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// The integers from 0 to n - 1 in random order, i64 [n]. Errors: ShapeError if n is negative.
Tensor randperm(Context& context, std::int64_t n);
/// Draws `draws` positions of the last axis of weights [..., n] with probabilities proportional to the weights, in draw
/// order: i64 [..., draws]. Weights must not be negative and must have a positive sum; this is not checked, because
/// values on the device are not read. Without replacement, positions of weight 0 come after all others. Errors:
/// ShapeError unless draws is positive and, without replacement, at most n; DtypeError unless floating.
Tensor multinomial(Tensor weights, std::int64_t draws, bool replacement = false);

}  // namespace headroom
