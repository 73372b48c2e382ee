#pragma once
// The description of an attention for cuDNN, and the rules for which attentions qualify. Plain C++, so that a dry run
// knows the scratch that a GPU will need, and tests need no GPU.
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

/// Shapes, strides and options that a cuDNN plan is made for. Named after cuDNN's term: scaled dot-product attention.
struct Sdpa {
    bool gradient = false, causal = false;
    bool deterministic = true;  ///< for the gradient; a forward is always deterministic
    bool stats = false;         ///< lse is written
    Dtype dtype = Dtype::f16;
    float scale = 1;
    std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, width = 0;
    /// Strides of batch, position and head, in elements; the last axis has a stride of 1. lse is contiguous.
    using Strides = std::array<std::int64_t, 3>;
    Strides q{}, k{}, v{}, o{};
    Strides dy{}, dq{}, dk{}, dv{};  ///< for a gradient
    std::size_t budget = ComputeOptions().scratch_budget;

    std::int64_t group() const { return heads / key_heads; }
    /// The description of this many batches and key heads, with the query heads that read them.
    Sdpa part(std::int64_t batches, std::int64_t groups) const;
    /// Bytes of scratch that a plan may take; plans that take more are not used.
    std::size_t scratch() const;
    static constexpr std::string_view kind = "attention";
    /// Everything that a plan depends on; the budget only decides the parts.
    std::string text() const;

    friend auto operator<=>(const Sdpa&, const Sdpa&) = default;
};

/// Empty if cuDNN is not used: for f32 and f64; with masks, lengths or dropout (its random draws differ from ours); if
/// the head width is not a multiple of 8 or is above 128; for fewer than 64 queries or keys (cuDNN plans each shape for
/// about a second, too long for the steps of a generation); for causal with fewer keys than queries; if the last axis
/// has a stride other than 1, or other strides are not multiples of 16 bytes; if lse is not contiguous; if the scale is
/// not positive. Depends on shapes, strides, dtypes and options, not on addresses, except whether lse has one.
std::optional<Sdpa> plan_sdpa(const Attention& attention);
/// Also empty: for gradients in another dtype than their operand's, or not all three; if one key head of one batch
/// takes more scratch than the budget; if the number of queries is not a multiple of 4 and more than one part is
/// needed.
std::optional<Sdpa> plan_sdpa(const AttentionGradient& gradient, const ComputeOptions& options = {});

/// True if addresses are multiples of 16 bytes, as cuDNN requires; for a gradient also only if all three are wanted
/// with betas of 0.
bool ready(const Attention& attention);
bool ready(const AttentionGradient& gradient);

/// The lowest compute capability for cuDNN's attention ("Support Matrix" of cuDNN 9: fused attention from Ampere on).
inline constexpr int kSdpaCapability = 80;

/// cuDNN's counters: all of a forward call's scratch, and part of a gradient's. cuDNN 9.15 to 9.26 take 256 bytes.
inline constexpr std::size_t kSdpaCounters = std::size_t{64} << 10;

/// The part that one call computes: all of a forward; of a gradient as much as the budget allows, at least one key head
/// of one batch. cuDNN's deterministic gradient stores the gradient of all scores as halves; computing some batches, or
/// some heads of one batch, at a time keeps this linear in the sequence length.
Sdpa largest_part(const Sdpa& whole);

/// Bytes of scratch of one part; the same without cuDNN, so that memory does not depend on what is installed.
inline std::size_t sdpa_scratch(const std::optional<Sdpa>& whole) { return whole ? largest_part(*whole).scratch() : 0; }

/// Calls `call(part, batch, key_head)` for each part, with its first batch and key head; at most two different parts.
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

/// Device addresses; those that a call does not use are null.
struct SdpaData {
    std::byte *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
    std::byte* lse = nullptr;
    std::byte *dy = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;  ///< for a gradient
};

SdpaData data_of(const Attention& attention);
/// The addresses of the part that begins at this batch and key head.
SdpaData data_of(const AttentionGradient& gradient, std::int64_t batch, std::int64_t key_head);

}  // namespace headroom::kernels
