#include <headroom/nn/region_pooling.hpp>

#include <cmath>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/roi_align.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>

namespace headroom::nn {

namespace {

/// Level k of a feature, which has the image's size / 2^k.
std::int64_t level_of(const Tensor& feature, std::int64_t height) {
    return std::llround(std::log2(static_cast<double>(height) / static_cast<double>(feature.size(2))));
}

/// The level of each box [N, S, 4]: [N, S], of the boxes' dtype.
Tensor levels_of(const Tensor& boxes, std::int64_t least, std::int64_t most, const RegionPoolingOptions& options) {
    const Tensor width = boxes.select(-1, 2) - boxes.select(-1, 0), height = boxes.select(-1, 3) - boxes.select(-1, 1);
    const Tensor doublings = log(sqrt(width * height) / options.canonical_size) / std::log(2.0);
    // What torchvision adds against rounding, so that a region of exactly the canonical size has the canonical level.
    const double offset = static_cast<double>(options.canonical_level) + 1e-6;
    return clamp(floor(doublings + offset), least, most);
}

}  // namespace

Tensor pool_regions(const Pyramid& levels, IntPair image, const Tensor& boxes, const Tensor& present,
                    const RegionPoolingOptions& options) {
    Context& context = boxes.context();
    const std::int64_t finest = level_of(levels[0], image[0]), coarsest = level_of(levels[3], image[0]);
    const auto rois_of = [&](std::int64_t level) {
        const NoGradGuard guard(context);
        Tensor there = present;
        if (finest != coarsest) {
            const Tensor at = levels_of(boxes, finest, coarsest, options);
            there = logical_and(std::move(there), at == static_cast<double>(level));
        }
        const Tensor index = arange(context, 0, boxes.size(0), 1, boxes.dtype()).unsqueeze(1);
        Tensor images = masked_fill(expand(index, present.shape()), logical_not(there), -1);
        return cat({images.unsqueeze(-1), boxes}, -1).reshape({-1, 5});
    };
    Tensor result;
    for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
        const auto level = static_cast<int>(level_of(levels[i], image[0]));
        Tensor part = roi_align(levels[i], rois_of(finest + static_cast<std::int64_t>(i)), {options.size, options.size},
                                {.scale = std::ldexp(1.0, -level), .sampling = options.sampling});
        result = result.defined() ? std::move(result) + std::move(part) : std::move(part);
    }
    return result;
}

}  // namespace headroom::nn
