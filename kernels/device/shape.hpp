#pragma once
// The shape of a launch: a grid of blocks in up to three dimensions, and threads per block in one. Host and device code
// use it, so it is plain C++.
//
//     LaunchShape shape{.x = blocks_for(rows, 4), .threads = 128, .shared_bytes = shared_size<float>(128)};
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace headroom::kernels::device {

inline constexpr unsigned kWarp = 32;
/// The lowest compute capability (75 for 7.5) that kernels are compiled for, and the lowest with bf16 and TF32 on
/// tensor cores.
inline constexpr int kLeastCapability = 75, kBf16Capability = 80;
/// Shared memory of a block on compute capability 8.0. Later ones have at least as much, except 8.6, 8.9 and 12.0 (99
/// KiB); a launch is checked against its own device.
inline constexpr std::size_t kMostShared = 163 * 1024;
/// The same for compute capability 7.5: every kernel has a form that needs no more, unless it requires a newer GPU.
inline constexpr std::size_t kLeastShared = 64 * 1024;
/// Each region of shared memory starts at a multiple of this, as tensor-core loads require.
inline constexpr std::size_t kSharedAlign = 32;

struct LaunchShape {
    std::uint32_t x = 1;           ///< blocks. 0 in x, y or z: nothing is launched
    bool loops = false;            ///< the kernel gives the same result with fewer blocks in x, see `grid_for`
    std::uint32_t y = 1, z = 1;    ///< at most 65535
    std::uint32_t threads = 128;   ///< per block: a multiple of 32, at most 1024
    std::size_t shared_bytes = 0;  ///< sum of `shared_size` over the kernel's calls of `shared`
};

/// Bytes that `block.shared<T>(count)` takes from the arena.
template <class T>
constexpr std::size_t shared_size(std::size_t count) {
    return (count * sizeof(T) + kSharedAlign - 1) / kSharedAlign * kSharedAlign;
}

/// Blocks needed for `count` elements with `per_block` each, rounded up; 2^32 - 1, which no launch accepts, if there
/// are more.
constexpr std::uint32_t blocks_for(std::int64_t count, std::int64_t per_block) {
    return static_cast<std::uint32_t>(std::min<std::int64_t>((count + per_block - 1) / per_block, 0xffffffff));
}

/// Null if a GPU can run this shape, else the problem with it.
constexpr const char* problem_with(const LaunchShape& shape) {
    if (shape.threads == 0 || shape.threads > 1024 || shape.threads % kWarp != 0)
        return "threads per block must be a multiple of 32 up to 1024";
    if (shape.x > 0x7fffffffu || shape.y > 65535 || shape.z > 65535)
        return "a grid has at most 2^31 - 1 blocks in x and 65535 in y and z";
    if (shape.shared_bytes > kMostShared) return "more shared memory than 163 KiB per block";
    return nullptr;
}

}  // namespace headroom::kernels::device
