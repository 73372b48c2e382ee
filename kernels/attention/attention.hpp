#pragma once
// Scaled dot-product attention in blocks (FlashAttention): softmax(scale * q k^T) v without ever storing the score
// matrix. Memory is linear in the sequence length, also with masks and with dropout on the probabilities.
//
//     const Attention attention{.q = q, .k = k, .v = v, .o = o, .lse = lse, .causal = true, .scale = 0.125};
//     const AttentionPlan plan(stream, attention);
//     std::byte* scratch = allocate(plan.scratch());                  // before the launch
//     launch(stream, [&](auto& s) { plan.run(s, scratch); });
#include <cstddef>
#include <optional>
#include <string>

#include <headroom/kernels/attention/internal/sdpa.hpp>
#include <headroom/kernels/random/philox.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Masks that hide keys in addition to `causal`. A view of rank 0 means none. If all keys of a query are hidden, its
/// result is 0 and its lse is minus infinity, and it does not affect any gradient.
struct AttentionMask {
    /// [B, H, T, S], broadcast by strides of 0. bool: true where the query sees the key. Any floating dtype: added to
    /// the scaled scores. Values below -1e6 hide their key, like minus infinity: the gradient recomputes probabilities
    /// from lse, which could not tell such scores apart.
    View values{};
    /// [B], i32 or i64: in batch b, keys from position lengths[b] on are hidden, and blocks of hidden keys are skipped.
    /// Errors: ShapeError for a length outside [0, S], with its value and position; on a GPU when the host next waits.
    View lengths{};
};

/// Dropout of probabilities after the softmax, as in Vaswani et al. (2017): each is set to 0 with probability p, else
/// divided by 1 - p. An element is kept if its random word is at least p 2^32. For query i and key j of head h in batch
/// b, that is word 4 r ceil(S / 4) + j of the key's sequence, with r = (b H + h) T + i, on all devices.
struct AttentionDropout {
    float p = 0;
    RandomKey key{};
};

/// True if an Attention or AttentionGradient has a mask, lengths or dropout.
template <class A>
bool has_extras(const A& attention) {
    return attention.mask.values.rank() != 0 || attention.mask.lengths.rank() != 0 || attention.dropout.p != 0;
}

/// o = softmax(scale * q k^T + mask, over visible keys) v, per batch and head.
///
/// q [B, T, H, D]; k and v [B, S, G, D] with H a multiple of G: query head h reads key head h / (H / G). o [B, T, H,
/// D]. All may be strided, such as slices of a packed [B, T, (H + 2 G) * D]. lse [B, H, T] receives the logarithm of
/// the sum of exponentials for the gradient (f64 for f64, else f32); its data may be null if no gradient follows.
/// causal: query i sees keys j <= i + (S - T), as with a key-value cache; a query that sees none gives 0. Dtypes: q, k,
/// v, o share one of f32, f16, bf16, f64; computed in f32 (f64 for f64). Method: Dao, "FlashAttention-2" (2023), with
/// Milakov and Gimelshein's online softmax (2018).
struct Attention {
    View q{};
    View k{};
    View v{};
    View o{};
    View lse{};
    bool causal = false;
    double scale = 1;
    AttentionMask mask{};
    AttentionDropout dropout{};
};

/// One call of attention. The constructor chooses the kernels.
class AttentionPlan {
  public:
    AttentionPlan(const Stream& stream, const Attention& attention);

    /// Bytes: linear in S, per thread; on CUDA 64 KiB if sizes and dtypes qualify for cuDNN, else none. Depends only on
    /// shapes, strides, dtypes and threads.
    std::size_t scratch() const { return scratch_; }

    /// Runs on the stream that it was planned for. The bits do not depend on the number of threads. `scratch`: 64-byte
    /// aligned; may be null for 0 bytes.
    void run(CpuStream& stream, std::byte* scratch) const;
    /// f16 and bf16 with D <= 128 use tensor cores; probabilities are rounded to the operands' dtype, sums are f32.
    /// cuDNN, if it was found (see `attention_library`), runs the calls in which D is a multiple of 8, T and S are at
    /// least 64, and rows and strides are multiples of 16 bytes. It does not run causal calls with S < T, nor calls
    /// with masks or dropout. lse has the same meaning in both cases. cuDNN takes about a second to plan each new
    /// shape, and loads its kernels into memory that is not counted. After 64 plans, new shapes run on the project's
    /// own kernels, and so does everything if cuDNN is missing or refuses. The scratch is then the same and there is no
    /// message; `attention_library` gives the reason.
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    Attention attention_;
    std::optional<Sdpa> library_;   ///< the problem for cuDNN, if it qualifies
    std::size_t thread_bytes_ = 0;  ///< per thread on the CPU
    std::size_t scratch_ = 0;
};

/// dq = beta_q * dq + ..., likewise dk and dv, from the arrays that `Attention` read and wrote and the gradient `dy`
/// [B, T, H, D] of its output. Gradients have the shapes of q, k, v, may be strided, and have their operand's dtype or
/// f32; a gradient with null data is not computed. With a beta of 0 the destination is never read. Probabilities are
/// recomputed from lse.
struct AttentionGradient {
    View q{};
    View k{};
    View v{};
    View o{};
    View lse{};
    View dy{};
    View dq{};
    View dk{};
    View dv{};
    float beta_q = 0;
    float beta_k = 0;
    float beta_v = 0;
    bool causal = false;
    double scale = 1;
    AttentionMask mask{};
    AttentionDropout dropout{};
};

/// One call of the gradient. The constructor chooses the kernels.
class AttentionGradientPlan {
  public:
    AttentionGradientPlan(const Stream& stream, const AttentionGradient& gradient);

    /// Bytes: linear in S, per thread; less if dk and dv have rank 0, or contiguous rows of whole vectors (16 floats)
    /// in the compute type. On CUDA: one number per query and head; or, if sizes and dtypes qualify for cuDNN, what its
    /// gradient needs for some batches or heads at a time, within `ComputeOptions::scratch_budget`: two bytes per score
    /// if deterministic, else an f32 per element of dq. Depends only on shapes, strides, dtypes and threads.
    std::size_t scratch() const { return scratch_; }

    /// As `AttentionPlan::run`.
    void run(CpuStream& stream, std::byte* scratch) const;
    /// f16 and bf16 with D <= 128 use tensor cores; probabilities and score gradients are rounded to the operands'
    /// dtype. cuDNN runs the calls whose forward pass it would run, if all three gradients are wanted in that dtype
    /// with betas of 0, one key head fits into the scratch budget, and, for a deterministic result, the GPU's compute
    /// capability is 9.x or 10.x. The bits repeat from run to run unless `ComputeOptions::deterministic` is false.
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    AttentionGradient gradient_;
    std::optional<Sdpa> library_;   ///< the problem for cuDNN, if it qualifies
    std::size_t thread_bytes_ = 0;  ///< per thread on the CPU
    std::size_t scratch_ = 0;
};

/// For reports, one line without quotes: "cuDNN 9.26.0, frontend 1.32.0", with the last refusal if there was one, or
/// the reason why the project's own kernels are used.
std::string attention_library(CudaStream& stream);

}  // namespace headroom::kernels
