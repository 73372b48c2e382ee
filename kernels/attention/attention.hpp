#pragma once
// Scaled dot-product attention in blocks, after FlashAttention: softmax(scale * q k^T) v without ever storing the
// matrix of scores. Memory is linear in the sequence, with masks and with dropout on the probabilities, too.
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

/// Masks that hide keys in addition to `causal`. A view of rank 0: none. A query with all keys hidden gives 0; its lse
/// is minus infinity, and it takes no part in any gradient.
struct AttentionMask {
    /// [B, H, T, S], broadcast by strides of 0. bool: true where the query sees the key. Floating, of any dtype: added
    /// to the scaled scores; values below -1e6 hide their key as minus infinity does, since lse, from which the
    /// gradient computes the probabilities again, could not tell such scores apart.
    View values{};
    /// [B], i32 or i64: the queries of batch b see no key from position lengths[b] on. Blocks of such keys are skipped.
    /// For a length outside of [0, S]: ShapeError with its value and position, on a GPU when the host next waits.
    View lengths{};
};

/// Dropout of probabilities after the softmax, as in Vaswani et al. (2017): each is 0 with probability p, else divided
/// by 1 - p. The word that decides over query i and key j of head h in batch b is number 4 r ceil(S / 4) + j of the
/// key's sequence, r = (b H + h) T + i, on all devices; an element is kept if it is at least p 2^32.
struct AttentionDropout {
    float p = 0;
    RandomKey key{};
};

/// True for an Attention or an AttentionGradient with a mask, with lengths or with dropout.
template <class A>
bool has_extras(const A& attention) {
    return attention.mask.values.rank() != 0 || attention.mask.lengths.rank() != 0 || attention.dropout.p != 0;
}

/// o = softmax(scale * q k^T + mask, over visible keys) v, per batch and head.
///
/// q [B, T, H, D]; k and v [B, S, G, D] with H a multiple of G: query head h reads key head h / (H / G). o [B, T, H,
/// D]. All may be strided, such as slices of a packed [B, T, (H + 2 G) * D]. lse [B, H, T] receives the logarithm of
/// the sum of exponentials, for the gradient (f64 for f64, else f32); its data may be null if no gradient follows.
/// causal: query i sees keys j <= i + (S - T), as with a key-value cache; a query that sees none gives 0. dtypes: q, k,
/// v, o share one of f32, f16, bf16, f64; computed in f32 (f64 for f64). Source: Dao, "FlashAttention-2" (2023), with
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

/// One call of attention. The constructor decides which kernels compute it.
class AttentionPlan {
  public:
    AttentionPlan(const Stream& stream, const Attention& attention);

    /// Bytes: linear in S, per thread; on CUDA 64 KiB if the sizes and dtypes qualify for cuDNN, else none. Depends on
    /// shapes, strides, dtypes and threads only.
    std::size_t scratch() const { return scratch_; }

    /// On the stream that it was planned for. Bits do not depend on the number of threads. `scratch`: 64-byte aligned;
    /// may be null for 0 bytes.
    void run(CpuStream& stream, std::byte* scratch) const;
    /// f16 and bf16 with D <= 128: on tensor cores, probabilities rounded to the operands' dtype, sums in f32; by
    /// cuDNN, where it was found (see `attention_library`), if D is a multiple of 8, T and S are 64 or more, not causal
    /// with S < T, has neither masks nor dropout, and rows and strides are multiples of 16 bytes. Either way, lse has
    /// the same meaning. cuDNN makes a plan for each new shape, in about a second, and loads its kernels into memory
    /// that is not counted. The project's own kernels compute new shapes after 64 plans, and all where cuDNN is missing
    /// or refuses: with as much scratch and without a message; `attention_library` gives the reason.
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    Attention attention_;
    std::optional<Sdpa> library_;   ///< what cuDNN is asked for
    std::size_t thread_bytes_ = 0;  ///< of one thread on the CPU
    std::size_t scratch_ = 0;
};

/// dq = beta_q * dq + ..., likewise dk and dv, given the arrays that `Attention` read and wrote, and the gradient `dy`
/// [B, T, H, D] of its output. Gradients have the shapes of q, k, v, may be strided, and have their operand's dtype or
/// f32; one without data (null) is not computed. With a beta of 0 the destination is never read. Probabilities are
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

/// One call of the gradient. The constructor decides which kernels compute it.
class AttentionGradientPlan {
  public:
    AttentionGradientPlan(const Stream& stream, const AttentionGradient& gradient);

    /// Bytes: linear in S, per thread. Depends on shapes, strides, dtypes and threads only; less where dk and dv have
    /// contiguous rows of whole vectors (16 floats) of the type computed in, or rank 0. On CUDA: one number for each
    /// query of each head or, if the sizes and dtypes qualify for cuDNN, the need of its gradient for some batches or
    /// heads at a time, within `ComputeOptions::scratch_budget`: two bytes for each score if it is deterministic, else
    /// an f32 for each element of dq.
    std::size_t scratch() const { return scratch_; }

    /// As `AttentionPlan::run`.
    void run(CpuStream& stream, std::byte* scratch) const;
    /// f16 and bf16 with D <= 128: on tensor cores, probabilities and the gradient of scores rounded to the operands'
    /// dtype; by cuDNN where it would compute the forward, all three gradients are wanted in that dtype with betas of
    /// 0, one key head fits into the scratch budget, and, if it is to be deterministic, the GPU's compute capability is
    /// 9.x or 10.x. The bits repeat from run to run unless `ComputeOptions` waive that.
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    AttentionGradient gradient_;
    std::optional<Sdpa> library_;   ///< what cuDNN is asked for
    std::size_t thread_bytes_ = 0;  ///< of one thread on the CPU
    std::size_t scratch_ = 0;
};

/// For reports, one line without quotes: "cuDNN 9.26.0, frontend 1.32.0", with the last refusal if there was one, or
/// the reason why the project's own kernels compute.
std::string attention_library(CudaStream& stream);

}  // namespace headroom::kernels
