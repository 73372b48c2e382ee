#include <headroom/kernels/gather/gather.hpp>

#include <headroom/kernels/gather/internal/lines.hpp>
#include <headroom/kernels/gather/internal/scatter_plan.hpp>
#include <headroom/kernels/indices.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/rows.hpp>

namespace headroom::kernels {

namespace {

/// Unsigned integers as wide as an element: gathering copies bits.
template <class Work>
void dispatch_size(Dtype dtype, Work&& work) {
    switch (size_of(dtype)) {
        case 1:
            return work(TypeTag<std::uint8_t>{});
        case 2:
            return work(TypeTag<std::uint16_t>{});
        case 4:
            return work(TypeTag<std::uint32_t>{});
        default:
            return work(TypeTag<std::uint64_t>{});
    }
}

template <class Element>
void gather_run(const Element* x, const Indices& index, const GatherRun& run, Element* y) {
    if (run.one_index()) {
        const Element* source = x + run.x + index.at(run.index) * run.x_axis;
        for (std::int64_t i = 0; i < run.count; ++i) y[run.y + i * run.y_step] = source[i * run.x_step];
        return;
    }
    for (std::int64_t i = 0; i < run.count; ++i) {
        const std::int64_t position = index.at(run.index + i * run.index_step);
        y[run.y + i * run.y_step] = x[run.x + i * run.x_step + position * run.x_axis];
    }
}

/// y[i] += values[i], one element after the other: several may be the same one.
template <class T, class Element>
void scatter_run(const T* values, const Indices& index, const GatherRun& run, Element* y, Dtype dtype) {
    for (std::int64_t i = 0; i < run.count; ++i) {
        Element* target = y + run.x + i * run.x_step + index.at(run.index + i * run.index_step) * run.x_axis;
        if constexpr (std::is_same_v<T, Element>) {
            *target += values[i];
        } else {
            store_one(load_one<T>(target, dtype) + values[i], target, dtype);
        }
    }
}

/// y = beta * y
void scale(CpuStream& stream, const View& y, float beta) {
    if (beta == 1) return;
    const Rows rows(y);
    dispatch_compute(y.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, rows.count(), y.numel(), [&](std::int64_t row) {
            T values[kChunk];
            for_each_chunk(rows.length(), [&](std::int64_t begin, std::int64_t count) {
                std::fill_n(values, count, T{0});
                rows.write(values, row, begin, count, beta);
                if (beta == 0) store(values, count, rows.at(row, begin), y.dtype, rows.stride());
            });
        });
    });
}

/// The index of a selection as one that has the shape of the result.
View spread(const View& index, int axis, const Shape& shape) {
    View result{index.data, index.dtype, shape, {}};
    for (int i = 0; i < shape.rank(); ++i) result.strides.push_back(i == axis ? index.strides[0] : 0);
    return result;
}

void gather_checked(CpuStream& stream, const View& x, int axis, const View& index, const View& y) {
    if (y.numel() == 0) return;
    const Indices indices(index);
    const GatherLines lines(x, axis, index, y);
    dispatch_size(x.dtype, [&]<class Element>(TypeTag<Element>) {
        parallel_for(stream, lines.count(), y.numel(), [&](std::int64_t line) {
            for (std::int64_t i = 0; i < lines.positions(); ++i) {
                gather_run(x.as<const Element>(), indices, lines.run(line, i), y.as<Element>());
            }
        });
    });
}

/// to = from, of the same shape: both have to and from which a row can be converted.
void convert(CpuStream& stream, const View& from, const View& to) {
    const Rows in(from), out(to);
    parallel_for(stream, out.count(), to.numel(), [&](std::int64_t row) {
        float values[kChunk];
        for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
            const float* source = in.read(row, begin, count, values);
            store(source, count, out.at(row, begin), to.dtype, out.stride());
        });
    });
}

/// True if several numbers may land on one element of a half array: then they are summed in f32, in scratch.
bool sums_apart(const View& y, std::int64_t indices) { return is_half(y.dtype) && indices > 1; }

std::size_t scratch_apart(const View& y, std::int64_t indices) {
    return sums_apart(y, indices) ? static_cast<std::size_t>(y.numel()) * sizeof(float) : 0;
}

void add_along_lines(CpuStream& stream, int axis, const View& index, const View& source, const View& y) {
    const Indices indices(index);
    const GatherLines lines(y, axis, index, source);
    dispatch_compute(y.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, lines.count(), index.numel(), [&](std::int64_t line) {
            T buffer[GatherLines::kBlock];
            for (std::int64_t i = 0; i < lines.positions(); ++i) {
                const GatherRun run = lines.run(line, i);
                const T* values = borrow(source.at(run.y), source.dtype, run.y_step, run.count, buffer);
                if (run.one_index()) {
                    std::byte* target = y.at(run.x + indices.at(run.index) * run.x_axis);
                    accumulate(values, run.count, 1, target, y.dtype, run.x_step);
                } else if (y.dtype == dtype_of<T>) {
                    scatter_run(values, indices, run, y.as<T>(), y.dtype);
                } else {
                    scatter_run(values, indices, run, y.as<std::uint16_t>(), y.dtype);
                }
            }
        });
    });
}

void scatter_checked(CpuStream& stream, int axis, const View& index, const View& source, const View& y, float beta,
                     std::byte* scratch) {
    if (y.numel() == 0) return;
    scale(stream, y, beta);
    if (index.numel() == 0) return;
    if (!sums_apart(y, index.shape[axis])) return add_along_lines(stream, axis, index, source, y);
    const View sums = contiguous_view(scratch, Dtype::f32, y.shape);
    convert(stream, y, sums);
    add_along_lines(stream, axis, index, source, sums);
    convert(stream, sums, y);
}

}  // namespace

void check_index(CpuStream&, const char* what, const View& index, std::int64_t bound) {
    Indices(index).check(what, bound);
}

void gather(CpuStream& stream, const View& x, int axis, const View& index, const View& y) {
    Indices(index).check("gather: index", x.shape[axis]);
    gather_checked(stream, x, axis, index, y);
}

ScatterAddPlan::ScatterAddPlan(const Stream& stream, int axis, const View& index, const View& source, const View& y,
                               float beta)
    : axis_(axis),
      index_(index),
      source_(source),
      y_(y),
      beta_(beta),
      plan_(axis, index, y),
      scratch_(on_cuda(stream) ? plan_.bytes() : scratch_apart(y, index.shape[axis])) {
    if (on_cuda(stream)) check_sortable("scatter_add", index.shape[axis], y.shape[axis]);
}

void ScatterAddPlan::run(CpuStream& stream, std::byte* scratch) const {
    Indices(index_).check("scatter_add: index", y_.shape[axis_]);
    scatter_checked(stream, axis_, index_, source_, y_, beta_, scratch);
}

void index_select(CpuStream& stream, const View& x, int axis, const View& index, const View& y) {
    Indices(index).check("index_select: index", x.shape[axis]);
    gather_checked(stream, x, axis, spread(index, axis, y.shape), y);
}

IndexSelectGradientPlan::IndexSelectGradientPlan(const Stream& stream, int axis, const View& index, const View& dy,
                                                 const View& dx, float beta)
    : axis_(axis),
      index_(index),
      dy_(dy),
      dx_(dx),
      beta_(beta),
      plan_(axis, index, dx),
      scratch_(on_cuda(stream) ? plan_.bytes() : scratch_apart(dx, index.numel())) {
    if (on_cuda(stream)) check_sortable("index_select", index.numel(), dx.shape[axis]);
}

void IndexSelectGradientPlan::run(CpuStream& stream, std::byte* scratch) const {
    Indices(index_).check("index_select: index", dx_.shape[axis_]);
    scatter_checked(stream, axis_, spread(index_, axis_, dy_.shape), dy_, dx_, beta_, scratch);
}

}  // namespace headroom::kernels
