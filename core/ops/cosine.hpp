#pragma once
// Cosine similarity of vectors, and the loss that pulls pairs together or apart. Composed of other ops; halves are
// computed in f32.
//
//     Tensor alike = cosine_similarity(queries, documents);                 // [32, 128] twice -> [32]
//     Loss loss = cosine_embedding_loss(a, b, context.from_host(signs, {32}), 0.2);   // signs 1 or -1
#include <headroom/core/loss.hpp>

namespace headroom {

/// sum(a b) / (max(|a|, epsilon) max(|b|, epsilon)) along an axis, which is dropped; a and b are floating and
/// broadcast. Computed and returned in f32 for halves, else in the wider of the two dtypes. In the other vector's
/// gradient, a vector shorter than epsilon counts as one of length epsilon. Longer vectors of one element give exactly
/// 1 or -1, and no gradient. Errors: ShapeError, DtypeError; Error for an epsilon below 1e-18.
Tensor cosine_similarity(Tensor a, Tensor b, int axis = -1, double epsilon = 1e-8);

/// The sum over pairs of 1 - cos(a, b) where the target is 1, and of max(0, cos(a, b) - margin) where it is -1. a and b
/// [..., D], target [...], any dtype. Each pair is a term. Errors: ShapeError, DtypeError; Error unless the margin is
/// in [-1, 1].
Loss cosine_embedding_loss(Tensor a, Tensor b, Tensor target, double margin = 0.0);

}  // namespace headroom
