#pragma once
// Pools regions of images, each from the pyramid level that matches its size. Lin et al. 2017, arXiv:1612.03144,
// equation 1; He et al. 2017, arXiv:1703.06870, section 3. Definitions are torchvision's (MultiScaleRoIAlign).
//
//     Tensor regions = nn::pool_regions(levels, {800, 1216}, boxes, present, {.size = 7});   // -> [2 * 512, 256, 7, 7]
#include <cstdint>

#include <headroom/nn/fpn.hpp>

namespace headroom::nn {

struct RegionPoolingOptions {
    std::int64_t size = 7;      ///< rows and columns of a pooled region
    std::int64_t sampling = 2;  ///< samples of a pooled element along each axis
    /// The level of a region w x h: canonical_level + log2(sqrt(w h) / canonical_size), rounded down. Level k has the
    /// images' size / 2^k.
    double canonical_size = 224;
    std::int64_t canonical_level = 4;
};

/// boxes [N, S, 4] in images of this height and width, present (bool [N, S]) -> [N S, C, size, size], 0 where a box is
/// absent. The pyramid's last level is not used.
Tensor pool_regions(const Pyramid& levels, IntPair image, const Tensor& boxes, const Tensor& present,
                    const RegionPoolingOptions& options);

}  // namespace headroom::nn
