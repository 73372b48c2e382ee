#include <headroom/kernels/reduce/internal/partition.hpp>

#include <algorithm>
#include <bit>

#include <headroom/kernels/device/shape.hpp>
#include <headroom/kernels/round_up.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kEnoughOutputs = 512;  // rows of so many outputs keep a GPU busy
constexpr std::int64_t kPartElements = 8192;  // of one output, at least
constexpr std::int64_t kMostRowTasks = 1024;  // outputs times parts
constexpr std::int64_t kRowsPerThread = 8;    // in a part of columns, at least
constexpr std::int64_t kMostColumnTasks = 512;
constexpr std::int64_t kBlockGroups = 512;  // above so many a block takes an output, below a warp or less

unsigned power_of_two(std::int64_t least) {
    const auto most = std::int64_t{device::kWarp};
    return std::bit_ceil(static_cast<unsigned>(std::clamp<std::int64_t>(least, 1, most)));
}

/// True if all rows begin at a multiple of a group, counted from the array's begin.
bool steps_by_groups(const ReduceAxes& axes) {
    return std::all_of(axes.axes().begin(), axes.axes().end(),
                       [](const ReduceAxis& axis) { return axis.x % Partition::kWidth == 0; });
}

}  // namespace

Partition::Partition(const ReduceLoops& plan, Dtype dtype) {
    const bool narrow = dtype == Dtype::f32 || is_half(dtype);
    wide = narrow && plan.inner.x == 1 && steps_by_groups(plan.kept) && steps_by_groups(plan.reduced);
    outputs = plan.kept.numel() * (plan.columns ? plan.inner.size : 1);
    if (outputs == 0) return;
    if (plan.columns) {
        share_columns(plan);
    } else {
        share_rows(plan);
    }
}

void Partition::share_rows(const ReduceLoops& plan) {
    const std::int64_t runs = plan.reduced.numel();
    wide = wide && (runs == 1 || plan.inner.size % kWidth == 0);
    groups = runs * (plan.inner.size / (wide ? kWidth : 1));
    rest = wide ? plan.inner.size % kWidth : 0;
    if (outputs < kEnoughOutputs) {
        const std::int64_t most = quotient_up(kMostRowTasks, outputs);
        parts = std::clamp<std::int64_t>(runs * plan.inner.size / kPartElements, 1, most);
    }
    team = parts > 1 || groups > kBlockGroups ? kThreads : power_of_two(groups);
}

void Partition::share_columns(const ReduceLoops& plan) {
    groups = quotient_up(plan.inner.size, wide ? kWidth : 1);
    team = power_of_two(groups);
    tiles = quotient_up(groups, team);
    const std::int64_t most = quotient_up(kMostColumnTasks, plan.kept.numel() * tiles);
    parts = std::clamp<std::int64_t>(plan.reduced.numel() / (kRowsPerThread * (kThreads / team)), 1, most);
}

}  // namespace headroom::kernels
