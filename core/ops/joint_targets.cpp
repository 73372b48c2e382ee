#include <headroom/core/ops/joint_targets.hpp>

#include <functional>

#include <headroom/kernels/fill/fill.hpp>

namespace headroom {

namespace {

/// One past the last element; strides of destinations are positive.
const std::byte* end_of(const View& view) {
    std::int64_t last = 0;
    for (int i = 0; i < view.rank(); ++i) last += (view.size(i) - 1) * view.stride(i);
    return view.at(last + 1);
}

bool overlap(const View& a, const View& b) {
    if (a.numel() == 0 || b.numel() == 0) return false;
    const std::less<const std::byte*> before;
    return before(a.at(0), end_of(b)) && before(b.at(0), end_of(a));
}

}  // namespace

// The array is let go: were it held, asking for another view of the same value would copy the gradient.
const JointTarget& JointTargets::add(int input, const GradientDestination& target) {
    JointTarget& next = targets_[static_cast<std::size_t>(input)];
    if (!target) return next;
    const View view = target.view();
    for (std::size_t i = 0; i < targets_.size(); ++i) {
        JointTarget& earlier = targets_[i];
        if (!earlier.wanted || earlier.beta != 0.0f || !overlap(earlier.view, view)) continue;
        exec_.launch([&](auto& stream) { kernels::fill(stream, 0.0, earlier.view); });
        earlier.beta = 1.0f;
    }
    next = {view, target.beta, true};
    return next;
}

}  // namespace headroom
