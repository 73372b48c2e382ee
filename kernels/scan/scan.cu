// Where a line is cut into parts: their sums, from these the sum before each part, and the parts once more.
#include <headroom/kernels/scan/scan.hpp>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/prefix_sum.cuh>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/internal/wrapping_sum.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 256;

/// A task is a part of a line; `T` is what its elements are summed in, `Sum` what goes on from one block's width to the
/// next.
template <class T, class Sum>
struct ScanLines {
    static constexpr unsigned kMaxThreads = kThreads;

    Strided<2> lines;  ///< the first elements of y's lines, and of x's
    std::int64_t length, y_stride, x_stride, part, parts;
    float beta;
    Sum* sums;    ///< of the parts or, `writes`, of all parts before; null if there is one part
    bool writes;  ///< y; else the sums

    HEADROOM_DEVICE T load(std::int64_t line_offset, std::int64_t i) const {
        return load_as<T>(lines.data(1), lines.dtype(1), line_offset + i * x_stride);
    }
    HEADROOM_DEVICE void put(std::int64_t line_offset, std::int64_t i, Sum value) const {
        accumulate_as<Sum>(lines.data(0), lines.dtype(0), line_offset + i * y_stride, beta, value);
    }
    HEADROOM_DEVICE std::int64_t end_of(std::int64_t begin) const {
        return begin + part < length ? begin + part : length;
    }

    /// A block takes a task: neighbours of a line by neighbouring threads.
    HEADROOM_DEVICE void operator()(Block& block) const {
        const Shared<T> scratch = block.shared<T>(block.warps());
        for (std::int64_t task = block.x(); task < lines.numel() * parts; task += block.grid_x()) {
            const Offsets<2> at = lines.offsets(task % lines.numel());
            const std::int64_t begin = task / lines.numel() * part, end = end_of(begin);
            Sum sum = writes && sums ? sums[task] : Sum(0);
            for (std::int64_t first = begin; first < end; first += block.threads()) {
                const std::int64_t i = first + block.thread();
                T total = 0;
                const T here = sum_up_to(block, i < end ? load(at[1], i) : T(0), scratch, total);
                if (writes && i < end) put(at[0], i, wrapping_sum(sum, static_cast<Sum>(here)));
                sum = wrapping_sum(sum, static_cast<Sum>(total));
            }
            if (!writes && block.thread() == 0) sums[task] = sum;
        }
    }
};

/// A thread takes a task: where neighbouring lines are neighbours in memory.
template <class T, class Sum>
struct ScanLinesBeside {
    static constexpr unsigned kMaxThreads = kThreads;
    ScanLines<T, Sum> scan;

    HEADROOM_DEVICE void operator()(Block& block) const {
        const std::int64_t lines = scan.lines.numel();
        for (std::int64_t task = block.global_thread(); task < lines * scan.parts; task += block.global_threads()) {
            const Offsets<2> at = scan.lines.offsets(task % lines);
            const std::int64_t begin = task / lines * scan.part, end = scan.end_of(begin);
            Sum sum = scan.writes && scan.sums ? scan.sums[task] : Sum(0);
            for (std::int64_t i = begin; i < end; ++i) {
                sum = wrapping_sum(sum, static_cast<Sum>(scan.load(at[1], i)));
                if (scan.writes) scan.put(at[0], i, sum);
            }
            if (!scan.writes) scan.sums[task] = sum;
        }
    }
};

/// Sums of parts become sums of the parts before; a thread takes a line.
template <class Sum>
struct SumParts {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, Sum* sums, std::int64_t lines, std::int64_t parts) const {
        for (std::int64_t line = block.global_thread(); line < lines; line += block.global_threads()) {
            Sum before = 0;
            for (std::int64_t i = line; i < lines * parts; i += lines) {
                const Sum here = sums[i];
                sums[i] = before;
                before = wrapping_sum(before, here);
            }
        }
    }
};

template <class T, class Sum>
void scan_all(CudaStream& stream, ScanLines<T, Sum> scan, bool beside) {
    const std::int64_t lines = scan.lines.numel(), tasks = lines * scan.parts;
    const auto run = [&](bool writes) {
        scan.writes = writes;
        if (beside) {
            launch(stream, {.x = grid_for(stream, tasks, kThreads), .loops = true, .threads = kThreads},
                   ScanLinesBeside<T, Sum>{scan});
        } else {
            const std::size_t shared = shared_size<T>(kThreads / kWarp);
            launch(stream,
                   {.x = grid_for(stream, tasks, 1), .loops = true, .threads = kThreads, .shared_bytes = shared}, scan);
        }
    };
    if (scan.parts > 1) {
        run(false);
        launch(stream, {.x = grid_for(stream, lines, kThreads), .loops = true, .threads = kThreads}, SumParts<Sum>{},
               scan.sums, lines, scan.parts);
    }
    run(true);
}

}  // namespace

void CumsumPlan::run(CudaStream& stream, std::byte* scratch) const {
    if (x_.numel() == 0) return;
    View x = x_, y = y_;
    x.shape[axis_] = y.shape[axis_] = 1;
    x.strides[axis_] = y.strides[axis_] = 0;
    const Strided<2> lines({&y, &x});
    const std::int64_t length = x_.shape[axis_], x_stride = x_.strides[axis_], y_stride = y_.strides[axis_];
    const bool beside = lines.row_size() > 1 && (x_stride > 1 || x_stride < -1) && lines.stride(1) == 1;
    const auto with = [&]<class T, class Sum>(TypeTag<T>, TypeTag<Sum>) {
        auto* const sums = parts_ > 1 ? reinterpret_cast<Sum*>(scratch) : nullptr;
        scan_all(stream, ScanLines<T, Sum>{lines, length, y_stride, x_stride, part_, parts_, beta_, sums, true},
                 beside);
    };
    if (!is_floating(x_.dtype)) return with(TypeTag<std::int64_t>{}, TypeTag<std::int64_t>{});
    if (x_.dtype == Dtype::f64 || y_.dtype == Dtype::f64) return with(TypeTag<double>{}, TypeTag<double>{});
    with(TypeTag<float>{}, TypeTag<double>{});
}

}  // namespace headroom::kernels
