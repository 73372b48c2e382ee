#pragma once
// An attention as cuDNN is asked for it, and which ones it is asked for. Plain C++, so that a rehearsal reckons with
// the scratch that a GPU will need, and tests prove it without one. Internal to kernels/attention.
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

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

struct Attention;
struct AttentionGradient;

/// Shapes, strides and options: what one of cuDNN's plans is made for. Its name there: scaled dot-product attention.
struct Sdpa {
    bool gradient = false, causal = false;
    bool stats = false;  ///< lse is written
    Dtype dtype = Dtype::f16;
    float scale = 1;
    std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, width = 0;
    /// Of batch, position and head, in elements; the last axis has a stride of 1. lse is contiguous.
    using Strides = std::array<std::int64_t, 3>;
    Strides q{}, k{}, v{}, o{};
    Strides dy{}, dq{}, dk{}, dv{};  ///< of a gradient

    std::int64_t group() const { return heads / key_heads; }
    /// Those batches and key heads alone, with the query heads that read them.
    Sdpa part(std::int64_t batches, std::int64_t groups) const;
    /// Bytes of scratch that a plan may take; with more, it is not used.
    std::size_t scratch() const;

    friend auto operator<=>(const Sdpa&, const Sdpa&) = default;
};

/// Nothing if cuDNN is not asked: f32 and f64; heads whose width is no multiple of 8 or above 128; fewer than 64
/// queries or keys (cuDNN makes a plan for each shape, which takes about a second: too long for the steps of a
/// generation); causal with fewer keys than queries; a last axis with another stride than 1, other strides that are no
/// multiples of 16 bytes; an lse that is not contiguous; a scale that is not positive. Depends on shapes, strides,
/// dtypes and options, not on addresses, except for whether lse has one.
std::optional<Sdpa> plan_sdpa(const Attention& attention);
/// Also nothing: gradients of another dtype than their operand's, or not all three; one key head of one batch that
/// takes more scratch than kSdpaMostScratch; a number of queries that is no multiple of 4, if more than one part is
/// needed.
std::optional<Sdpa> plan_sdpa(const AttentionGradient& gradient);

/// Whether addresses are multiples of 16 bytes, as cuDNN reads and writes; for a gradient also that all of it is wanted
/// and nothing is added to.
bool ready(const Attention& attention);
bool ready(const AttentionGradient& gradient);

/// Of one call. The deterministic gradient of cuDNN stores the gradient of all scores as halves: so it is computed for
/// some batches, or some heads of one, at a time, which keeps memory linear in the sequence.
inline constexpr std::size_t kSdpaMostScratch = std::size_t{256} << 20;
/// Of a forward call, and beside what is known of a gradient: counters. cuDNN 9.15 to 9.26 take 256 bytes.
inline constexpr std::size_t kSdpaCounters = std::size_t{64} << 10;

/// As much of it as one call computes: all of a forward, of a gradient what takes no more scratch than `most`, at least
/// one key head of one batch.
Sdpa largest_part(const Sdpa& whole, std::size_t most = kSdpaMostScratch);

/// Of one part; without cuDNN as much, so that memory does not depend on what is installed.
inline std::size_t sdpa_scratch(const std::optional<Sdpa>& whole) { return whole ? largest_part(*whole).scratch() : 0; }

/// `call(part, batch, key_head)`: the parts, with the first batch and key head of each; at most two different ones.
template <class Call>
void for_each_part(const Sdpa& whole, Call call, std::size_t most = kSdpaMostScratch) {
    const Sdpa largest = largest_part(whole, most);
    for (std::int64_t batch = 0; batch < whole.batch; batch += largest.batch) {
        for (std::int64_t key_head = 0; key_head < whole.key_heads; key_head += largest.key_heads) {
            call(whole.part(std::min(largest.batch, whole.batch - batch),
                            std::min(largest.key_heads, whole.key_heads - key_head)),
                 batch, key_head);
        }
    }
}

/// Addresses on the device; those that a call has no use for are null.
struct SdpaData {
    std::byte *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
    std::byte* lse = nullptr;
    std::byte *dy = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;  ///< of a gradient
};

SdpaData data_of(const Attention& attention);
/// Of the part that begins there.
SdpaData data_of(const AttentionGradient& gradient, std::int64_t batch, std::int64_t key_head);

}  // namespace headroom::kernels
