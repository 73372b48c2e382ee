#pragma once
// The common part of layer_norm and rms_norm: the chunks of rows for the gradient, and the CUDA kernels, because
// rms_norm is layer_norm with a mean of 0 and without beta.
//
//     const NormChunks chunks = norm_chunks(stream, x);
//     normalize(stream, x, gamma, beta, epsilon, y, &mean, rstd);      // layer_norm
//     normalize(stream, x, gamma, nullptr, epsilon, y, nullptr, rstd); // rms_norm
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/gradient_target.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// How rows are cut into chunks, whose sums of parameter gradients a second step adds: depends only on shape, dtype and
/// kind of stream. On a GPU a block processes a chunk, several rows at a time if they are short.
struct NormChunks {
    unsigned warps = 1;  ///< per row
    unsigned teams = 1;  ///< rows at a time
    bool fits = true;    ///< a row of x and one of dy fit in the registers of at most 16 warps
    std::int64_t parts = 1;
    std::int64_t columns = 0;  ///< per sum in scratch: the length, on a GPU rounded up to whole vectors

    /// Bytes for this many sums per chunk, for x of this dtype.
    std::size_t scratch(int sums, Dtype dtype) const {
        return static_cast<std::size_t>(sums * parts * columns) *
               (dtype == Dtype::f64 ? sizeof(double) : sizeof(float));
    }
};

inline NormChunks norm_chunks(const Stream& stream, const View& x) {
    constexpr unsigned kMostWarps = 16, kWarpsOfBlock = 8;
    constexpr std::int64_t kElementsOfWarp = 32 * 16, kMostParts = 264;  // two blocks for each of 132 multiprocessors
    const std::int64_t length = x.rank() == 0 ? 1 : x.size(x.rank() - 1), rows = length == 0 ? 0 : x.numel() / length;
    NormChunks chunks;
    if (!on_cuda(stream)) {
        chunks.parts = std::clamp<std::int64_t>(rows / 32, 1, 128);
        chunks.columns = length;
        return chunks;
    }
    while (chunks.warps < kMostWarps && length > kElementsOfWarp * chunks.warps) chunks.warps *= 2;
    chunks.fits = x.dtype != Dtype::f64 && length <= kElementsOfWarp * chunks.warps;
    chunks.teams = std::max(1u, kWarpsOfBlock / chunks.warps);
    chunks.parts = std::clamp<std::int64_t>(rows / (2 * std::int64_t{chunks.teams}), 1, kMostParts);
    chunks.columns = (length + 7) / 8 * 8;
    return chunks;
}

/// `mean` null: the mean is not subtracted.
void normalize(CudaStream& stream, const View& x, const View* gamma, const View* beta, double epsilon, const View& y,
               const View* mean, const View& rstd);

/// `mean` as above. Scratch is for 2 sums if there is a mean; else for 1, and `beta` must not be wanted.
void normalize_backward(CudaStream& stream, const NormChunks& chunks, const View& x, const View& dy, const View* gamma,
                        const View* mean, const View& rstd, GradientTarget dx, GradientTarget dgamma,
                        GradientTarget dbeta, std::byte* scratch);

}  // namespace headroom::kernels
