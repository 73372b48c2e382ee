#pragma once
// Runs the layers of a recurrent network one after another.
//
//     RecurrentStack all = recurrent_stack("gru", x, weights, {h0, {}}, options, layer);
#include <vector>

#include <headroom/core/ops/internal/recurrent_layer.hpp>
#include <headroom/core/ops/recurrent.hpp>

namespace headroom {

/// The results of one layer, or of the whole stack.
struct RecurrentStack {
    Tensor output;
    Tensor h;
    Tensor c;  ///< undefined for a GRU
};
struct RecurrentStates {
    Tensor h;
    Tensor c;
};
/// Applies the op of one layer.
using RecurrentLayer = RecurrentStack (*)(const ops::RecurrentAttrs& attrs, std::vector<Tensor> inputs);

/// Errors name `op`.
RecurrentStack recurrent_stack(const char* op, Tensor x, const std::vector<RecurrentWeights>& weights,
                               RecurrentStates states, const RecurrentOptions& options, RecurrentLayer layer);

}  // namespace headroom
