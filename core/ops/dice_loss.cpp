#include <headroom/core/ops/dice_loss.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/one_hot.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>

namespace headroom {

namespace {

constexpr const char* kOp = "dice_loss";

/// bool [N, C, ...], where channels are neighbours in memory as those of a convolution's result are.
Tensor mask_of(const Tensor& ids, std::int64_t channels) {
    Tensor mask = one_hot(ids, std::max<std::int64_t>(channels, 2), Dtype::boolean);
    if (channels == 1) mask = mask.slice(-1, 1, 2);
    std::vector<int> order{0, mask.rank() - 1};
    for (int axis = 1; axis + 1 < mask.rank(); ++axis) order.push_back(axis);
    return mask.permute(order);
}

}  // namespace

Loss dice_loss(Tensor logits, Tensor targets, double epsilon) {
    check_floating(kOp, {{"logits", logits}});
    check_defined(kOp, {{"targets", targets}});
    check_form(kOp, {"logits", logits}, logits.rank() > 1 && logits.size(1) > 0, "[N, C, ...], C at least 1");
    check_range(kOp, "epsilon", epsilon, 0, std::numeric_limits<double>::max());
    const bool of_ids = targets.rank() < logits.rank();
    if (of_ids) {
        Shape pixels = logits.shape();
        pixels.erase(1);
        check_index(kOp, {"targets", targets});
        check_shape(kOp, {"targets", targets}, pixels, {"logits", logits});
    } else {
        check_same_shape(kOp, {"targets", targets}, {"logits", logits});
    }
    return as_op(kOp, [&]() -> Loss {
        const std::int64_t channels = logits.size(1);
        const Dtype compute = compute_dtype(logits.dtype());
        logits = cast(std::move(logits), compute);
        const Tensor p = channels == 1 ? sigmoid(std::move(logits)) : softmax(std::move(logits), 1);
        std::vector<int> pixels(static_cast<std::size_t>(p.rank() - 2));
        std::iota(pixels.begin(), pixels.end(), 2);
        targets = of_ids ? mask_of(targets, channels) : cast(std::move(targets), compute);
        const auto over_pixels = [&](Tensor x) { return pixels.empty() ? x : sum(std::move(x), pixels); };
        const Tensor overlap = over_pixels(of_ids ? where(targets, p, zeros(p.context(), {}, compute)) : p * targets);
        const Tensor areas = over_pixels(p) + cast(over_pixels(targets), compute);
        const auto terms = static_cast<double>(areas.numel());
        return {sum(1.0 - (overlap * 2.0 + epsilon) / (areas + epsilon)), terms};
    });
}

}  // namespace headroom
