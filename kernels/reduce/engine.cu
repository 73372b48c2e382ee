#include <algorithm>
#include <bit>
#include <type_traits>

#include <headroom/kernels/reduce/internal/engine.hpp>
#include <headroom/kernels/reduce/internal/kernels.cuh>
#include <headroom/kernels/reduce/internal/ops.cuh>

namespace headroom::kernels {

namespace {

using namespace device;

/// Loops as a kernel finds its way in them, outermost first; the innermost may be cut into groups.
StridedAxes<3> kept_axes(const ReduceAxes& axes) {
    View views[3];
    for (const ReduceAxis& axis : axes.axes()) {
        const std::int64_t strides[] = {axis.y, axis.x, axis.center};
        for (int k = 0; k < 3; ++k) {
            views[k].shape.push_back(axis.size);
            views[k].strides.push_back(strides[k]);
        }
    }
    return StridedAxes<3>(Walk({&views[0], &views[1], &views[2]}, Walk::Order::shape), 3);
}

StridedAxes<1> reduced_axes(const ReduceAxes& axes) {
    View view;
    for (const ReduceAxis& axis : axes.axes()) {
        view.shape.push_back(axis.size);
        view.strides.push_back(axis.x);
    }
    return StridedAxes<1>(Walk({&view}, Walk::Order::shape), 1);
}

struct Problem {
    const ReduceLoops& plan;
    const Partition& partition;
    ReduceCenter center;
    ReduceTarget target;
};

template <class Op, class Source>
void run_rows(CudaStream& stream, const Problem& problem, const Op& op, const Source& source) {
    const Partition& share = problem.partition;
    ReduceAxes reduced = problem.plan.reduced;
    const ReduceAxis inner = problem.plan.inner;
    reduced.push_back({inner.size / Source::kWidth, inner.x * Source::kWidth});
    const ReduceRows<Op, Source> kernel{
        op,           source,     problem.center, problem.target, kept_axes(problem.plan.kept), reduced_axes(reduced),
        share.groups, share.rest, share.team};
    const std::size_t shared = share.team > kWarp ? shared_size<double>(Partition::kThreads / kWarp) : 0;
    device::launch(stream,
                   {.x = blocks_for(share.outputs, Partition::kThreads / share.team),
                    .y = static_cast<std::uint32_t>(share.parts),
                    .threads = Partition::kThreads,
                    .shared_bytes = shared},
                   kernel);
}

template <class Op, class Source>
void run_columns(CudaStream& stream, const Problem& problem, const Op& op, const Source& source) {
    const Partition& share = problem.partition;
    const ReduceColumns<Op, Source> kernel{op,
                                           source,
                                           problem.center,
                                           problem.target,
                                           kept_axes(problem.plan.kept),
                                           reduced_axes(problem.plan.reduced),
                                           problem.plan.inner,
                                           problem.plan.reduced.numel(),
                                           share.tiles,
                                           share.team};
    device::launch(stream,
                   {.x = blocks_for(problem.plan.kept.numel() * share.tiles, 1),
                    .y = static_cast<std::uint32_t>(share.parts),
                    .threads = Partition::kThreads,
                    .shared_bytes = shared_size<double>(Partition::kThreads * Source::kWidth)},
                   kernel);
}

template <class Op>
void join_parts(CudaStream& stream, const Problem& problem, const Op& op) {
    const ReduceTarget& target = problem.target;
    ReduceAxes kept = problem.plan.kept;
    if (problem.plan.columns) kept.push_back(problem.plan.inner);
    const unsigned team = std::min(kWarp, std::bit_ceil(static_cast<unsigned>(target.parts)));
    const JoinParts<Op> kernel{op, target, kept_axes(kept), team};
    device::launch(
        stream, {.x = blocks_for(target.outputs, Partition::kThreads / team), .threads = Partition::kThreads}, kernel);
}

template <class Op, class Source>
void run(CudaStream& stream, const Problem& problem, const Op& op, const Source& source) {
    if (problem.plan.columns) {
        run_columns(stream, problem, op, source);
    } else {
        run_rows(stream, problem, op, source);
    }
}

void run_aligned_sum(CudaStream& stream, const Problem& problem, const View& x) {
    if (x.dtype == Dtype::f16) return run(stream, problem, SumOnDevice{}, AlignedEights<f16>{x.as<const f16>()});
    if (x.dtype == Dtype::bf16) return run(stream, problem, SumOnDevice{}, AlignedEights<bf16>{x.as<const bf16>()});
    run(stream, problem, SumOnDevice{}, AlignedEights<float>{x.as<const float>()});
}

template <class Op>
void reduce_with(CudaStream& stream, const Problem& problem, const View& x, const Op& op) {
    const bool wide_numbers = x.dtype == Dtype::f64 || x.dtype == Dtype::i32 || x.dtype == Dtype::i64;
    const bool aligned = std::bit_cast<std::uintptr_t>(x.data) % 16 == 0;
    if (wide_numbers) {
        run(stream, problem, op, AnyElements<double>{x.data, x.dtype});
    } else if (!problem.partition.wide) {
        run(stream, problem, op, AnyElements<float>{x.data, x.dtype});
    } else if (!aligned || !std::is_same_v<Op, SumOnDevice>) {  // the sum has kernels for each dtype
        run(stream, problem, op, AnyEights{x.data, x.dtype, aligned});
    } else if constexpr (std::is_same_v<Op, SumOnDevice>) {
        run_aligned_sum(stream, problem, x);
    }
    if (problem.partition.parts > 1) join_parts(stream, problem, op);
}

}  // namespace

void ReductionPlan::run(CudaStream& stream, std::byte* scratch) const {
    if (y_.numel() == 0) return;
    const double sign = reduction_ == Reduction::smallest ? -1 : 1;
    const Problem problem{loops_,
                          *partition_,
                          {center_ ? center_->data : nullptr, center_ ? center_->dtype : Dtype::f32},
                          {y_.data, y_.dtype, sign * scale_, beta_, reinterpret_cast<double*>(scratch),
                           partition_->outputs, partition_->parts}};
    switch (reduction_) {
        case Reduction::sum:
            return reduce_with(stream, problem, x_, SumOnDevice{});
        case Reduction::largest:
        case Reduction::smallest:
            return reduce_with(stream, problem, x_, ExtremeOnDevice{static_cast<float>(sign)});
        case Reduction::squared_deviation:
            return reduce_with(stream, problem, x_, SquaredDeviationOnDevice{});
        case Reduction::count_equal:
            return reduce_with(stream, problem, x_, CountEqualOnDevice{});
        case Reduction::exp_sum:
            return reduce_with(stream, problem, x_, ExpSumOnDevice{});
        case Reduction::product:
        case Reduction::product_of_nonzero:
            return reduce_with(stream, problem, x_, ProductOnDevice{reduction_ == Reduction::product_of_nonzero});
    }
}

}  // namespace headroom::kernels
