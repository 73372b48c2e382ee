#pragma once
// Losses that compare element by element; each element is a term. For classes see cross_entropy.hpp, for directions
// cosine.hpp.
//
//     backward(mse_loss(prediction, target).mean());
//     Loss loss = binary_cross_entropy_with_logits(logits, labels);  // labels in [0, 1]
#include <headroom/core/apply.hpp>
#include <headroom/core/loss.hpp>

namespace headroom {

namespace ops {

/// The sum over all elements of `F`, a pointwise function of a prediction and a target.
template <class F>
struct ElementLoss {
    static constexpr OpInfo info{.name = F::name, .precision = Precision::full};
    using Attrs = F;
    struct Saved {
        Array x;
        Array target;
    };
    static Result<Saved, Array> forward(Exec& exec, const Attrs& f, const Array& x, const Array& target);
    static void backward(Exec& exec, const Attrs& f, const Saved& saved, Array dloss, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

/// All of them, for `all_ops`.
void add_element_losses(std::vector<OpEntry>& all);

}  // namespace ops

/// The sum of (x - target)^2; both of one shape, x floating, the target of any dtype; the sum is f32 (f64 for f64).
/// Errors: ShapeError, DtypeError.
Loss mse_loss(Tensor x, Tensor target);

/// The sum of |x - target|, whose gradient is 0 where they are equal; otherwise as `mse_loss`.
Loss l1_loss(Tensor x, Tensor target);

/// With d = x - target the sum of d^2 / (2 beta) where |d| < beta, and |d| - beta / 2 beyond; otherwise as `mse_loss`.
/// PyTorch's huber_loss is beta times this. Errors: Error unless beta is above 0 and finite: without it this is
/// `l1_loss`.
Loss smooth_l1_loss(Tensor x, Tensor target, double beta = 1.0);

/// The sum of -target log(sigmoid(x)) - (1 - target) log(1 - sigmoid(x)), without overflow for any x; otherwise as
/// `mse_loss`.
Loss binary_cross_entropy_with_logits(Tensor x, Tensor target);

}  // namespace headroom
