#pragma once
// The result of a loss function: a sum over terms (tokens, pixels, samples) and the number of terms. `mean()` is the
// value that PyTorch's loss functions return. Sum and terms are separate so that parts of a batch add up to the whole
// exactly, even if their sizes differ: `optim::GradientAccumulator` adds sums and terms, and divides once.
//
//     const Loss loss = cross_entropy(logits, targets);          // ignored targets do not count as terms
//     backward(loss.mean());
//     accumulator.accumulate([&] { return model.loss(ids, targets); });
//     Loss mine(sum(abs(x - y)), static_cast<double>(x.numel()));
//     Loss both = mse_loss(x, y) + 0.5 * mine;                   // over the same terms
//
// A loss with several normalisers, such as a detector's, is a sum over images of per-image means: its terms are images.
#include <variant>

#include <headroom/core/tensor.hpp>

namespace headroom {

class Loss {
  public:
    /// `sum`: one element, the sum over all terms. Errors: ShapeError for more elements; Error unless `terms` is finite
    /// and >= 0.
    Loss(Tensor sum, double terms);
    /// The same with terms counted on the device: one element of any dtype, without a gradient.
    Loss(Tensor sum, Tensor terms);

    /// One element, differentiable.
    const Tensor& sum() const { return sum_; }
    /// sum / terms in the sum's dtype; NaN for 0 terms.
    Tensor mean() const;
    /// Waits for the device if the terms were counted there; in a dry context the result is then 0.
    double terms() const;
    /// The number of terms, or the tensor that holds it.
    const std::variant<double, Tensor>& counted() const { return terms_; }

  private:
    Tensor sum_;
    std::variant<double, Tensor> terms_;
};

/// The sum of two losses over the same terms. Errors: Error unless both have the same number of terms, or share one
/// tensor of terms. Two separate tensors are not compared, because that would wait for the device.
Loss operator+(const Loss& a, const Loss& b);
/// The sum times a weight, over the same terms.
Loss operator*(const Loss& loss, double weight);
Loss operator*(double weight, const Loss& loss);

/// Deleted: call backward on `loss.mean()` or `loss.sum()` instead.
void backward(const Loss& loss, double seed = 1.0) = delete;

}  // namespace headroom
