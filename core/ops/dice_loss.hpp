#pragma once
// The soft Dice loss for segmentation: measures how little predicted and true areas overlap, whatever their size. Often
// combined with `cross_entropy`.
//
//     Loss loss = dice_loss(logits, masks);         // logits [4, 3, 256, 256], masks i64 [4, 256, 256] of classes
//     backward(loss.mean());
#include <headroom/core/loss.hpp>

namespace headroom {

/// The sum over images and classes of 1 - (2 overlap + epsilon) / (p + t + epsilon). p and t are the sums of an image's
/// probabilities and targets of a class over all pixels, and overlap is the sum of their products. Method: Milletari et
/// al. 2016, arXiv:1606.04797, with sums instead of sums of squares, as in Drozdzal et al. 2016, arXiv:1608.04117. Each
/// image and class is a term, so that `mean()` is MONAI's DiceLoss with a smoothing of epsilon. logits [N, C, ...] of
/// any floating dtype; probabilities are their softmax over C, or their sigmoid if C is 1. targets are class ids [N,
/// ...] (i32 or i64), 0 or 1 if C is 1; or probabilities [N, C, ...] of any dtype. Computed in f32 (f64 for f64). Keeps
/// the probabilities and, for ids, one byte for each of them. Errors: ShapeError, also for an id outside [0, C);
/// DtypeError; Error for an epsilon that is negative or not finite.
Loss dice_loss(Tensor logits, Tensor targets, double epsilon = 1e-6);

}  // namespace headroom
