#include <headroom/kernels/pointwise/elementwise.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/walk.hpp>

namespace headroom::kernels {

namespace {

constexpr int kMaxInputs = kMaxOperands - 1;
/// Elements of one share of work; runs without conversion may be as long.
constexpr std::int64_t kSpan = 8 * kChunk;

template <class T>
struct Buffers {
    alignas(64) T values[kMaxOperands][kChunk];
};

/// What stays the same for all runs of a launch. Operand 0 of the walk is the output.
template <class T>
struct Launch {
    const ElementLoop<T>& loop;
    const Walk& walk;
    std::array<Dtype, kMaxOperands> dtypes;
    int inputs;
    float beta;
    std::int64_t run_length;  ///< elements, the last one of a row may be shorter
    std::int64_t runs_per_row;
};

/// Adds what a loop computed to what is there already.
template <class T>
void accumulate_run(const T* values, std::int64_t count, float beta, std::byte* target, Dtype dtype,
                    std::int64_t stride, T* buffer) {
    T* sums = borrow_target<T>(target, dtype, stride, count, buffer);
    if (sums == buffer) load(target, dtype, stride, count, buffer);
    const T factor = static_cast<T>(beta);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) sums[i] = factor * sums[i] + values[i];
    settle(sums, count, target, dtype, stride);
}

/// Runs [begin, end) of a launch, counted row by row.
template <class T>
void run_share(const Launch<T>& launch, std::int64_t begin, std::int64_t end) {
    Buffers<T> buffers;
    std::array<const T*, kMaxInputs> in{};
    std::array<const std::byte*, kMaxInputs> repeated{};  // element that fills the buffer, where a stride is 0
    Cursor cursor(launch.walk, begin / launch.runs_per_row);
    std::int64_t part = begin % launch.runs_per_row;
    for (std::int64_t run = begin; run < end; ++run) {
        const std::int64_t first = part * launch.run_length;
        const std::int64_t count = std::min(launch.run_length, launch.walk.row_size() - first);
        for (int i = 0; i < launch.inputs; ++i) {
            const auto k = static_cast<std::size_t>(i);
            const Dtype dtype = launch.dtypes[k + 1];
            const std::int64_t stride = launch.walk.stride(i + 1);
            const std::byte* source = cursor.at(i + 1) + first * stride * static_cast<std::int64_t>(size_of(dtype));
            if (stride == 0 && repeated[k] == source) continue;
            if (stride == 0) repeated[k] = source;
            const std::int64_t filled = stride == 0 ? std::min(launch.run_length, launch.walk.row_size()) : count;
            in[k] = borrow(source, dtype, stride, filled, buffers.values[k]);
        }
        const Dtype dtype = launch.dtypes[0];
        const std::int64_t stride = launch.walk.stride(0);
        std::byte* target = cursor.at(0) + first * stride * static_cast<std::int64_t>(size_of(dtype));
        T* spare = buffers.values[kMaxInputs];
        if (launch.beta == 0.0f) {
            T* out = borrow_target<T>(target, dtype, stride, count, spare);
            launch.loop.run(launch.loop.function, in.data(), out, count);
            settle(out, count, target, dtype, stride);
        } else {
            alignas(64) T values[kChunk];
            launch.loop.run(launch.loop.function, in.data(), values, count);
            accumulate_run(values, count, launch.beta, target, dtype, stride, spare);
        }
        if (++part == launch.runs_per_row) {
            part = 0;
            cursor.next();
        }
    }
}

/// True if the view is one run of type T that needs no conversion.
template <class T>
bool plain(const View& view, const Shape& shape) {
    return view.dtype == dtype_of<T> && view.shape == shape && view.contiguous();
}

template <class T>
bool direct(const Walk& walk, const std::array<Dtype, kMaxOperands>& dtypes) {
    for (int i = 0; i < walk.operands(); ++i) {
        if (dtypes[static_cast<std::size_t>(i)] != dtype_of<T> || walk.stride(i) != 1) return false;
    }
    return true;
}

}  // namespace

Dtype compute_dtype(std::initializer_list<const View*> views) {
    Dtype result = Dtype::i64;
    for (const View* view : views) {
        if (view->dtype == Dtype::f64) return Dtype::f64;
        if (is_floating(view->dtype)) result = Dtype::f32;
    }
    return result;
}

template <class T>
void run_elementwise(const CpuStream& stream, const ElementLoop<T>& loop, std::initializer_list<const View*> inputs,
                     const View& output, float beta) {
    const std::int64_t elements = output.elements();
    if (elements == 0) return;
    const int count = static_cast<int>(inputs.size());
    if (elements <= kSpan && beta == 0.0f && plain<T>(output, output.shape) &&
        std::all_of(inputs.begin(), inputs.end(), [&](const View* view) { return plain<T>(*view, output.shape); }) &&
        (stream.threads == 1 || elements * loop.cost < kParallelThreshold)) {
        std::array<const T*, kMaxInputs> in{};
        for (int i = 0; i < count; ++i) in[static_cast<std::size_t>(i)] = inputs.begin()[i]->as<const T>();
        loop.run(loop.function, in.data(), output.as<T>(), elements);
        return;
    }

    std::array<View, kMaxInputs> broadcast;
    std::array<const View*, kMaxOperands> views{&output};
    std::array<Dtype, kMaxOperands> dtypes{output.dtype};
    for (int i = 0; i < count; ++i) {
        const auto k = static_cast<std::size_t>(i);
        const View& view = *inputs.begin()[i];
        if (view.shape != output.shape) broadcast[k] = broadcast_to(view, output.shape);
        views[k + 1] = view.shape == output.shape ? &view : &broadcast[k];
        dtypes[k + 1] = view.dtype;
    }
    const Walk walk(views.data(), count + 1);
    const std::int64_t longest = beta == 0.0f && direct<T>(walk, dtypes) ? kSpan : kChunk;
    const std::int64_t run_length = std::min(longest, walk.row_size());
    const std::int64_t runs_per_row = (walk.row_size() + run_length - 1) / run_length;
    const Launch<T> launch{loop, walk, dtypes, count, beta, run_length, runs_per_row};
    const std::int64_t runs = walk.rows() * runs_per_row;
    const std::int64_t share = std::max<std::int64_t>(1, kSpan / run_length);
    parallel_for(stream, (runs + share - 1) / share, elements * loop.cost,
                 [&](std::int64_t i) { run_share(launch, i * share, std::min(runs, (i + 1) * share)); });
}

template void run_elementwise(const CpuStream&, const ElementLoop<float>&, std::initializer_list<const View*>,
                              const View&, float);
template void run_elementwise(const CpuStream&, const ElementLoop<double>&, std::initializer_list<const View*>,
                              const View&, float);
template void run_elementwise(const CpuStream&, const ElementLoop<std::int64_t>&, std::initializer_list<const View*>,
                              const View&, float);

}  // namespace headroom::kernels
