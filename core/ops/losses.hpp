#pragma once
// Element-wise losses; each element is a term. For classes see cross_entropy.hpp, for directions cosine.hpp.
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
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& f, const Array& x, const Array& target);
    static void backward(Exec& exec, const Attrs& f, const Saved& saved, Array dloss, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

/// Adds all of them to the list, for `all_ops`.
void add_element_losses(std::vector<OpEntry>& all);

}  // namespace ops

/// The sum of (x - target)^2. Both have the same shape; x is floating, the target of any dtype; the sum is f32 (f64 for
/// f64). Errors: ShapeError, DtypeError.
Loss mse_loss(Tensor x, Tensor target);

/// The sum of |x - target|, with gradient 0 where they are equal; otherwise as `mse_loss`.
Loss l1_loss(Tensor x, Tensor target);

/// With d = x - target, the sum of d^2 / (2 beta) where |d| < beta, and of |d| - beta / 2 elsewhere; otherwise as
/// `mse_loss`. Errors: Error unless beta is above 0 and finite; for the limit of beta = 0 use `l1_loss`.
Loss smooth_l1_loss(Tensor x, Tensor target, double beta = 1.0);

/// delta times `smooth_l1_loss` with beta = delta: the sum of d^2 / 2 where |d| < delta, and of delta (|d| - delta / 2)
/// elsewhere.
Loss huber_loss(Tensor x, Tensor target, double delta = 1.0);

/// The sum of -target log(sigmoid(x)) - (1 - target) log(1 - sigmoid(x)), without overflow for any x; otherwise as
/// `mse_loss`.
Loss binary_cross_entropy_with_logits(Tensor x, Tensor target);

struct FocalLossOptions {
    double alpha = 0.25;  ///< weight of a target of 1; a target of 0 has weight 1 - alpha; below 0: all weights are 1
    double gamma = 2.0;   ///< well-predicted elements count less the higher it is; 0: all count alike
};

/// The terms of `binary_cross_entropy_with_logits` times alpha_t (1 - p_t)^gamma, where p_t = p target + (1 - p) (1 -
/// target), p = sigmoid(x), and alpha_t likewise: torchvision.ops.sigmoid_focal_loss (Lin et al. 2017,
/// arXiv:1708.02002). Errors: as `mse_loss`; Error for an alpha above 1 or a gamma that is negative or not finite.
Loss sigmoid_focal_loss(Tensor x, Tensor target, const FocalLossOptions& options = {});

/// The Kullback-Leibler divergence from exp(x) to the target: the sum of target (log(target) - x), 0 where the target
/// is 0. With `log_target` the target contains logarithms. The number of terms is the N of x [N, ...], so `mean()` is
/// PyTorch's "batchmean". Otherwise as `mse_loss`.
Loss kl_div(Tensor x, Tensor target, bool log_target = false);

}  // namespace headroom
