#pragma once
// Cross entropy of logits and class indices, summed over rows, and its gradient. Probabilities are never stored. For
// targets that are distributions use `log_softmax`. A loss over chunks of rows calls the same functions per chunk, with
// beta 1 for the loss (preferably f64), and may overwrite the logits with the gradient.
//
//     const CrossEntropyPlan plan(stream, logits, targets, {}, {}, loss, terms, 0, lse);  // [768, 65], [768]
//     plan.run(stream, scratch);                                                          // plan.scratch() bytes
//     cross_entropy_backward(stream, logits, targets, {}, {}, lse, dloss, dlogits, 0);
//
// Logits have any floating dtype and strides; f64 is computed in f64, everything else in f32. Targets are i32 or i64. A
// target that is neither `ignore_index` nor in [0, C) throws ShapeError with its value and position, before anything is
// written; on CUDA it counts as class 0, and the host throws when it next waits. Rows whose target is `ignore_index`
// add nothing to the loss and get a gradient of 0.
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

struct CrossEntropyOptions {
    std::int64_t ignore_index = -100;
    /// e in [0, 1]: the target distribution is (1 - e) at the target plus e / C everywhere (Szegedy et al. 2016,
    /// arXiv:1512.00567), as in PyTorch.
    double label_smoothing = 0;
};

/// Weights of the classes, w; without values they are 1.
struct ClassWeights {
    View values;  ///< [C], any floating dtype
    View total;   ///< their sum, one element; read only with label smoothing

    bool given() const { return values.rank() > 0; }
};

/// loss = beta * loss + sum over rows of  (1 - e) * w[t] * (lse - x[t]) + e / C * sum over c of w[c] * (lse - x[c]),
/// with the row's logits x, its target t and lse = log(sum(exp(x))), as in PyTorch. `lse` is contiguous, [rows, 2], f32
/// (f64 for f64 logits): the row's largest logit and log(sum(exp(x - largest))). The two are kept apart because their
/// sum would lose digits where logits share an offset. They are also written for rows with `ignore_index`. The loss is
/// one element of any floating dtype, summed in f64 in chunks of rows that depend only on the shape. terms = beta *
/// terms + the sum of w[t] over the rows that count: one f64.
class CrossEntropyPlan {
  public:
    CrossEntropyPlan(const Stream& stream, const View& logits, const View& targets, const ClassWeights& weights,
                     const CrossEntropyOptions& options, const View& loss, const View& terms, float beta,
                     const View& lse);

    /// Bytes: the rows' losses on a GPU, none on the CPU.
    std::size_t scratch() const { return scratch_; }
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    View logits_, targets_;
    ClassWeights weights_;
    CrossEntropyOptions options_;
    View loss_, terms_;
    float beta_;
    View lse_;
    std::size_t scratch_;
};

/// dlogits[c] = beta * dlogits[c] + dloss * (a * exp(x[c] - lse) - (1 - e) * w[t] * [c = t] - e / C * w[c]) with
/// a = (1 - e) * w[t] + e / C * sum(w). `dloss` is one element, read from memory. dlogits may be the logits themselves
/// (beta 0).
void cross_entropy_backward(CpuStream& stream, const View& logits, const View& targets, const ClassWeights& weights,
                            const CrossEntropyOptions& options, const View& lse, const View& dloss, const View& dlogits,
                            float beta);
void cross_entropy_backward(CudaStream& stream, const View& logits, const View& targets, const ClassWeights& weights,
                            const CrossEntropyOptions& options, const View& lse, const View& dloss, const View& dlogits,
                            float beta);

}  // namespace headroom::kernels
