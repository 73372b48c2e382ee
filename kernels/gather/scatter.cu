// The gradients: scatter_add and index_select_backward.
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/gather/gather.hpp>
#include <headroom/kernels/gather/internal/gathering.hpp>
#include <headroom/kernels/gather/internal/scatter_plan.hpp>
#include <headroom/kernels/gather/internal/segments.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 128;

View without(View view, int axis) {
    view.shape.erase(axis);
    view.strides.erase(axis);
    return view;
}

View along(const View& view, int axis) { return {view.data, view.dtype, {view.shape[axis]}, {view.strides[axis]}}; }

View with_axis_last(const View& view, int axis) {
    View result = without(view, axis);
    result.shape.push_back(view.shape[axis]);
    result.strides.push_back(view.strides[axis]);
    return result;
}

/// y, the source and the index of a scatter over the index's shape, along `axis` y's.
struct Scatter {
    View y, source, index, position;

    Scatter(int axis, const View& index, const View& source, const View& y)
        : y{y.data, y.dtype, index.shape, y.strides},
          source{source.data, source.dtype, index.shape, source.strides},
          index(index),
          position(contiguous_view(nullptr, Dtype::i64, index.shape)) {
        this->y.shape[axis] = y.shape[axis];
    }
};

/// An element of the source per thread. The first one of those on a line that have the same index adds all of them.
template <class T>
struct AddOnLines {
    static constexpr unsigned kMaxThreads = kThreads;

    StridedAxes<4> lines;  // y, source, index, position
    std::int64_t y_step, source_step, index_step, position_step;
    std::int64_t length;
    void* y;
    const void* source;
    Dtype y_dtype, source_dtype;
    IndexReader index;
    IndexCheck check;

    /// Neighbouring threads take neighbours on a line, or the same element of neighbouring lines.
    HEADROOM_DEVICE void operator()(Block& block, bool along_lines, const Divisor inner, float beta) const {
        for (std::int64_t i = block.global_thread(); i < lines.numel() * length; i += block.global_threads()) {
            const auto outer = static_cast<std::int64_t>(inner.divide(static_cast<std::uint64_t>(i)));
            const std::int64_t rest = i - outer * inner.value();
            add(block, along_lines ? outer : rest, along_lines ? rest : outer, beta);
        }
    }

    HEADROOM_DEVICE void add(Block& block, std::int64_t line, std::int64_t own, float beta) const {
        const Offsets<4> at = lines.offsets(line);
        const std::int64_t target = index_at(block, at, own);
        for (std::int64_t i = 0; i < own; ++i)
            if (index_at(block, at, i) == target) return;
        T sum = source_at(at, own);
        for (std::int64_t i = own + 1; i < length; ++i)
            if (index_at(block, at, i) == target) sum += source_at(at, i);
        accumulate_as<T>(y, y_dtype, at[0] + target * y_step, beta, sum);
    }

    HEADROOM_DEVICE std::int64_t index_at(Block& block, const Offsets<4>& at, std::int64_t i) const {
        return check(block, index(at[2] + i * index_step), at[3] + i * position_step);
    }
    HEADROOM_DEVICE T source_at(const Offsets<4>& at, std::int64_t i) const {
        return load_as<T>(source, source_dtype, at[1] + i * source_step);
    }
};

template <class T>
void add_on_lines(CudaStream& stream, const Scatter& scatter, int axis, const IndexCheck& check, float beta) {
    const View y = without(scatter.y, axis), source = without(scatter.source, axis);
    const View index = without(scatter.index, axis), position = without(scatter.position, axis);
    const AddOnLines<T> add{.lines = StridedAxes<4>(Walk({&y, &source, &index, &position}), 4),
                            .y_step = scatter.y.strides[axis],
                            .source_step = scatter.source.strides[axis],
                            .index_step = scatter.index.strides[axis],
                            .position_step = scatter.position.strides[axis],
                            .length = scatter.index.shape[axis],
                            .y = y.data,
                            .source = source.data,
                            .y_dtype = y.dtype,
                            .source_dtype = source.dtype,
                            .index = IndexReader(index),
                            .check = check};
    const bool along_lines = axis == scatter.index.rank() - 1;
    const Divisor inner(along_lines ? add.length : add.lines.numel());
    launch(stream, {.x = grid_for(stream, scatter.index.numel(), kThreads), .loops = true, .threads = kThreads}, add,
           along_lines, inner, beta);
}

}  // namespace

void scatter_add_sorted(CudaStream& stream, int axis, const View& index, const View& source, const View& y, float beta,
                        const ScatterPlan& plan, std::byte* scratch) {
    const IndexCheck check = index_check(stream, "scatter_add: index", plan.rows);
    const Scatter scatter(axis, index, source, y);
    const View sources = with_axis_last(scatter.source, axis), targets = with_axis_last(scatter.y, axis);
    SegmentRows rows(sources, {source.data, source.dtype, {1}, {1}}, targets, {y.data, y.dtype, {1}, {1}});
    IndexLines indices{with_axis_last(scatter.index, axis), with_axis_last(scatter.position, axis), 0, plan.length};
    for (std::int64_t line = 0; line < plan.lines; line += plan.lines_at_once()) {
        const std::int64_t some = std::min(plan.lines_at_once(), plan.lines - line);
        indices.first = rows.first_position = line * plan.length;
        rows.first_row = line * plan.rows;
        const Sorted sorted = sort_indices(stream, indices, check, plan.sort(some), scratch);
        sum_segments(stream, sorted, rows, plan.sums(some), beta, scratch + plan.sort(some).bytes());
    }
}

void ScatterAddPlan::run(CudaStream& stream, std::byte* scratch) const {
    const IndexCheck check = index_check(stream, "scatter_add: index", y_.shape[axis_]);
    if (y_.numel() == 0) return check_indices(stream, index_, check);
    scale(stream, y_, beta_);
    if (index_.numel() == 0) return;
    const float kept = beta_ == 0 ? 0.0f : 1.0f;
    if (plan_.sorts()) {
        scatter_add_sorted(stream, axis_, index_, source_, y_, kept, plan_, scratch);
    } else if (y_.dtype == Dtype::f64) {
        add_on_lines<double>(stream, Scatter(axis_, index_, source_, y_), axis_, check, kept);
    } else {
        add_on_lines<float>(stream, Scatter(axis_, index_, source_, y_), axis_, check, kept);
    }
}

void IndexSelectGradientPlan::run(CudaStream& stream, std::byte* scratch) const {
    const IndexCheck check = index_check(stream, "index_select: index", dx_.shape[axis_]);
    if (dx_.numel() == 0) return check_indices(stream, index_, check);
    scale(stream, dx_, beta_);
    const SegmentRows rows(along(dy_, axis_), without(dy_, axis_), along(dx_, axis_), without(dx_, axis_));
    const Sorted sorted = sort_indices(stream, index_, check, plan_.sort, scratch);
    sum_segments(stream, sorted, rows, plan_.sums, beta_ == 0 ? 0.0f : 1.0f, scratch + plan_.sort.bytes());
}

}  // namespace headroom::kernels
