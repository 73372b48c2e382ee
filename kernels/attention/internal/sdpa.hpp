#pragma once
// The description of an attention that cuDNN gets, and which attentions it gets. Plain C++, so that a dry run counts
// the scratch that a GPU will need, and tests need no GPU.
//
//     const std::optional<Sdpa> whole = plan_sdpa(gradient);
//     if (whole && ready(gradient))
//         for_each_part(*whole, [&](const Sdpa& part, std::int64_t batch, std::int64_t key_head) { ... });
#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

struct Attention;
struct AttentionGradient;

/// Shapes, strides and options: what one of cuDNN's plans is made for. Its name there: scaled dot-product attention.
struct Sdpa {
    bool gradient = false, causal = false;
    bool deterministic = true;  ///< the gradient; a forward always is
    bool stats = false;         ///< lse is written
    Dtype dtype = Dtype::f16;
    float scale = 1;
    std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, width = 0;
    /// Strides of batch, position and head, in elements; the last axis has a stride of 1. lse is contiguous.
    using Strides = std::array<std::int64_t, 3>;
    Strides q{}, k{}, v{}, o{};
    Strides dy{}, dq{}, dk{}, dv{};  ///< of a gradient
    std::size_t budget = ComputeOptions().scratch_budget;

    std::int64_t group() const { return heads / key_heads; }
    /// Those batches and key heads alone, with the query heads that read them.
    Sdpa part(std::int64_t batches, std::int64_t groups) const;
    /// Bytes of scratch that a plan may take; with more, it is not used.
    std::size_t scratch() const;
    static constexpr std::string_view kind = "attention";
    /// Everything that a plan is made for: the budget decides only which parts there are.
    std::string text() const;

    friend auto operator<=>(const Sdpa&, const Sdpa&) = default;
};

/// Empty if cuDNN is not used: for f32 and f64; masks, lengths and dropout (its draws are not ours); heads whose width
/// is no multiple of 8 or above 128; fewer than 64 queries or keys (cuDNN makes a plan for each shape, which takes
/// about a second: too long for the steps of a generation); causal with fewer keys than queries; a last axis with
/// another stride than 1, other strides that are no multiples of 16 bytes; an lse that is not contiguous; a scale that
/// is not positive. Depends on shapes, strides, dtypes and options, not on addresses, except for whether lse has one.
std::optional<Sdpa> plan_sdpa(const Attention& attention);
/// Also empty: for gradients of another dtype than their operand's, or not all three; one key head of one batch that
/// takes more scratch than the budget; a number of queries that is no multiple of 4, if more than one part is needed.
std::optional<Sdpa> plan_sdpa(const AttentionGradient& gradient, const ComputeOptions& options = {});

/// True if addresses are multiples of 16 bytes, as cuDNN needs; for a gradient also if all parts are wanted with betas
/// of 0.
bool ready(const Attention& attention);
bool ready(const AttentionGradient& gradient);

/// The least compute capability of cuDNN's attention ("Support Matrix" of cuDNN 9: fused attention from Ampere on).
inline constexpr int kSdpaCapability = 80;

/// cuDNN's counters: all of a forward call's scratch, and part of a gradient's. cuDNN 9.15 to 9.26 take 256 bytes.
inline constexpr std::size_t kSdpaCounters = std::size_t{64} << 10;

/// The part that one call computes: all of a forward; of a gradient as much as the budget allows, at least one key head
/// of one batch. The deterministic gradient of cuDNN stores the gradient of all scores as halves: some batches, or some
/// heads of one, at a time keep that linear in the sequence.
Sdpa largest_part(const Sdpa& whole);

/// Bytes of scratch of one part; the same without cuDNN, so that memory does not depend on what is installed.
inline std::size_t sdpa_scratch(const std::optional<Sdpa>& whole) { return whole ? largest_part(*whole).scratch() : 0; }

/// `call(part, batch, key_head)`: the parts, with the first batch and key head of each; at most two different ones.
template <class Call>
void for_each_part(const Sdpa& whole, Call call) {
    const Sdpa largest = largest_part(whole);
    for (std::int64_t batch = 0; batch < whole.batch; batch += largest.batch) {
        for (std::int64_t key_head = 0; key_head < whole.key_heads; key_head += largest.key_heads) {
            call(whole.part(std::min(largest.batch, whole.batch - batch),
                            std::min(largest.key_heads, whole.key_heads - key_head)),
                 batch, key_head);
        }
    }
}

/// Addresses on the device; those that a call does not use are null.
struct SdpaData {
    std::byte *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
    std::byte* lse = nullptr;
    std::byte *dy = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;  ///< of a gradient
};

SdpaData data_of(const Attention& attention);
/// The addresses of the part that begins there.
SdpaData data_of(const AttentionGradient& gradient, std::int64_t batch, std::int64_t key_head);

}  // namespace headroom::kernels
