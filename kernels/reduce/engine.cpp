#include <headroom/kernels/reduce/internal/engine.hpp>

#include <algorithm>

#include <headroom/kernels/math.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/reduce/internal/plan.hpp>
#include <headroom/kernels/rows.hpp>
#include <headroom/kernels/runs.hpp>

namespace headroom::kernels {

namespace {

/// The sum of e^(x - center), and of e^x for a center that is not finite.
struct ExpSum : Sum {
    template <class V>
    static V add(V sum, V x, V center) {
        if constexpr (std::is_floating_point_v<V>) {
            return sum + math::exp(x - (center - center == V(0) ? center : V(0)));
        } else {
            using T = std::remove_cvref_t<decltype(x[0])>;
            T term[kLanes<T>], shift[kLanes<T>];
            std::memcpy(term, &x, sizeof term);
            std::memcpy(shift, &center, sizeof shift);
#pragma omp simd
            for (std::int64_t i = 0; i < kLanes<T>; ++i) term[i] = add(T(0), term[i], shift[i]);
            return sum + load_lanes(term);
        }
    }
};

struct Product {
    static constexpr double start = 1;
    template <class V>
    static V add(V product, V x, V) {
        return product * x;
    }
    template <class V>
    static V merge(V a, V b) {
        return a * b;
    }
};

struct ProductOfNonzero : Product {
    template <class V>
    static V add(V product, V x, V) {
        return x == 0 ? product : product * x;
    }
};

constexpr std::int64_t kBlock = 1024;          // columns that one task accumulates
constexpr std::int64_t kRowsPerFlush = 64;     // rows added up before the sum moves on to f64
constexpr std::int64_t kSplitElements = 8192;  // a task of a split reduction is at least so large
constexpr std::int64_t kMaxPartials = 16;      // per block of columns; rows: kBlock times as many numbers

constexpr int kTogether = 4;  // rows that are added to a block's accumulators at once

/// What differs between reductions: the loops over a run of numbers. What surrounds them is compiled once for each
/// type.
template <class T>
struct Loops {
    double start;
    /// Joins a run of one row into `total`.
    void (*add_run)(double& total, const T* run, std::int64_t count, T center);
    /// Adds kTogether rows to the accumulators of `count` columns, or one row.
    void (*add_rows)(T* sums, const T* const* rows, std::int64_t count, const T* center);
    void (*add_row)(T* sums, const T* row, std::int64_t count, const T* center);
    void (*merge_sums)(double* totals, const T* sums, std::int64_t count);
    void (*merge)(double* totals, const double* others, std::int64_t count);
};

template <class Op, class T>
void add_run(double& total, const T* run, std::int64_t count, T center) {
    total = Op::merge(total, static_cast<double>(combine_run<Op, T>(run, count, center)));
}

/// Four rows at a time move the accumulators through the processor four times less often.
template <class Op, class T>
void add_rows(T* sums, const T* const* rows, std::int64_t count, const T* center) {
    const T *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) {
        const T pair = Op::add(Op::add(sums[j], a[j], center[j]), b[j], center[j]);
        sums[j] = Op::add(Op::add(pair, c[j], center[j]), d[j], center[j]);
    }
}

template <class Op, class T>
void add_row(T* sums, const T* row, std::int64_t count, const T* center) {
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) sums[j] = Op::add(sums[j], row[j], center[j]);
}

template <class Op, class From>
void merge(double* totals, const From* others, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j) totals[j] = Op::merge(totals[j], static_cast<double>(others[j]));
}

template <class Op, class T>
constexpr Loops<T> kLoops{Op::start, add_run<Op, T>, add_rows<Op, T>, add_row<Op, T>, merge<Op, T>, merge<Op, double>};

/// One number out of all reduced axes, the runs' results being joined in f64.
template <class T>
double reduce_to_one(const Loops<T>& loops, const View& x, std::int64_t start, const ReduceAxes& outer,
                     const ReduceAxis& inner, T center) {
    double total = loops.start;
    outer.for_each([&](std::int64_t offset) {
        T buffer[kChunk];
        for (std::int64_t begin = 0; begin < inner.size; begin += kChunk) {
            const std::int64_t count = std::min(kChunk, inner.size - begin);
            const T* run = borrow(x.at(start + offset + begin * inner.x), x.dtype, inner.x, count, buffer);
            loops.add_run(total, run, count, center);
        }
    });
    return total;
}

/// The accumulators of a block of columns, which take kTogether rows at a time.
template <class T>
class ColumnBlock {
  public:
    /// `total` has room for `count` <= kBlock numbers.
    ColumnBlock(const Loops<T>& loops, std::int64_t count, const T* center, double* total)
        : loops_(loops), count_(count), center_(center), total_(total) {
        std::fill_n(total_, count_, loops.start);
        std::fill_n(sums_, count_, static_cast<T>(loops.start));
    }

    void add(const void* source, Dtype dtype, std::int64_t stride) {
        rows_[waiting_] = borrow(source, dtype, stride, count_, buffers_[waiting_]);
        if (++waiting_ == kTogether) add_waiting();
    }

    void finish() {
        add_waiting();
        flush();
    }

  private:
    void add_waiting() {
        if (waiting_ == kTogether) {
            loops_.add_rows(sums_, rows_, count_, center_);
        } else {
            for (int i = 0; i < waiting_; ++i) loops_.add_row(sums_, rows_[i], count_, center_);
        }
        pending_ += waiting_;
        waiting_ = 0;
        if (pending_ >= kRowsPerFlush) flush();
    }

    void flush() {
        loops_.merge_sums(total_, sums_, count_);
        std::fill_n(sums_, count_, static_cast<T>(loops_.start));
        pending_ = 0;
    }

    const Loops<T>& loops_;
    std::int64_t count_;
    const T* center_;
    double* total_;
    const T* rows_[kTogether] = {};
    int waiting_ = 0;
    std::int64_t pending_ = 0;
    T sums_[kBlock], buffers_[kTogether][kBlock];
};

struct Result {
    const View& y;
    double scale;
    float beta;

    void put(double* totals, std::int64_t count, std::int64_t offset, std::int64_t stride) const {
        for (std::int64_t j = 0; j < count; ++j) totals[j] *= scale;
        if (y.dtype == Dtype::f32 && count == 1) {  // as of many short rows: no detour
            auto* target = reinterpret_cast<float*>(y.at(offset));
            const double before = beta == 0 ? 0 : static_cast<double>(beta) * static_cast<double>(*target);
            *target = static_cast<float>(before + *totals);
        } else if (beta != 0) {
            accumulate(totals, count, beta, y.at(offset), y.dtype, stride);
        } else {
            store(totals, count, y.at(offset), y.dtype, stride);
        }
    }
};

/// The longest loop of a reduction is cut into parts where there are too few outputs to keep threads busy.
std::int64_t parts_of(const ReduceAxes& reduced, std::int64_t elements, std::int64_t room) {
    std::int64_t longest = 1;
    for (const ReduceAxis& axis : reduced.axes()) longest = std::max(longest, axis.size);
    return std::clamp<std::int64_t>(elements / kSplitElements, 1, std::min(longest, std::max<std::int64_t>(room, 1)));
}

template <class T>
void reduce_rows(CpuStream& stream, const Loops<T>& loops, const ReduceLoops& plan, const View& x, const View* center,
                 const Result& result) {
    ReduceAxes reduced = plan.reduced;
    reduced.push_back(plan.inner);
    const std::int64_t outputs = plan.kept.numel();
    const std::int64_t elements = reduced.numel();
    const std::int64_t room = kMaxPartials * kBlock / outputs;
    const std::int64_t parts = outputs < 64 ? parts_of(reduced, elements, std::min<std::int64_t>(room, 64)) : 1;
    const auto reduce_part = [&](std::int64_t output, std::int64_t part) {
        const ReduceOffsets at = plan.kept.offsets(output);
        const T middle = center ? load_one<T>(center->at(at.center), center->dtype) : T{0};
        if (parts == 1) return reduce_to_one(loops, x, at.x, plan.reduced, plan.inner, middle);
        std::int64_t start = 0;
        ReduceAxes outer = reduced.part(part, parts, start);
        const ReduceAxis inner = outer.pop_back();
        return reduce_to_one(loops, x, at.x + start, outer, inner, middle);
    };
    if (parts == 1) {
        parallel_for(stream, outputs, outputs * elements, [&](std::int64_t output) {
            double total = reduce_part(output, 0);
            result.put(&total, 1, plan.kept.offsets(output).y, 1);
        });
        return;
    }
    double partials[kMaxPartials * kBlock];
    parallel_for(stream, outputs * parts, outputs * elements,
                 [&](std::int64_t task) { partials[task] = reduce_part(task / parts, task % parts); });
    for (std::int64_t output = 0; output < outputs; ++output) {
        double* total = partials + output * parts;
        for (std::int64_t part = 1; part < parts; ++part) loops.merge(total, total + part, 1);
        result.put(total, 1, plan.kept.offsets(output).y, 1);
    }
}

template <class T>
void reduce_columns(CpuStream& stream, const Loops<T>& loops, const ReduceLoops& plan, const View& x,
                    const View* center, const Result& result) {
    const ReduceAxis& inner = plan.inner;
    const std::int64_t blocks = (inner.size + kBlock - 1) / kBlock;
    const std::int64_t outputs = plan.kept.numel() * blocks;
    const std::int64_t elements = plan.reduced.numel() * inner.size;
    const std::int64_t cost = plan.kept.numel() * elements;
    const std::int64_t parts = parts_of(plan.reduced, elements / blocks, kMaxPartials / outputs);
    const auto columns_of = [&](std::int64_t output) {
        return std::min(kBlock, inner.size - output % blocks * kBlock);
    };
    const auto reduce_part = [&](std::int64_t output, std::int64_t part, double* total) {
        const ReduceOffsets at = plan.kept.offsets(output / blocks);
        const std::int64_t begin = output % blocks * kBlock;
        const std::int64_t count = columns_of(output);
        T buffer[kBlock];
        const T* middle = buffer;
        if (!center) std::fill_n(buffer, count, T{0});
        if (center) {
            const std::byte* centers = center->at(at.center + begin * inner.center);
            middle = borrow(centers, center->dtype, inner.center, count, buffer);
        }
        std::int64_t start = 0;
        const ReduceAxes outer = parts == 1 ? plan.reduced : plan.reduced.part(part, parts, start);
        ColumnBlock<T> block(loops, count, middle, total);
        const std::int64_t first = at.x + begin * inner.x + start;
        outer.for_each([&](std::int64_t offset) { block.add(x.at(first + offset), x.dtype, inner.x); });
        block.finish();
    };
    const auto put = [&](std::int64_t output, double* total) {
        const std::int64_t offset = plan.kept.offsets(output / blocks).y + output % blocks * kBlock * inner.y;
        result.put(total, columns_of(output), offset, inner.y);
    };
    if (parts == 1) {
        parallel_for(stream, outputs, cost, [&](std::int64_t output) {
            double total[kBlock];
            reduce_part(output, 0, total);
            put(output, total);
        });
        return;
    }
    double partials[kMaxPartials][kBlock];
    parallel_for(stream, outputs * parts, cost,
                 [&](std::int64_t task) { reduce_part(task / parts, task % parts, partials[task]); });
    for (std::int64_t output = 0; output < outputs; ++output) {
        double* total = partials[output * parts];
        for (std::int64_t part = 1; part < parts; ++part) {
            loops.merge(total, partials[output * parts + part], columns_of(output));
        }
        put(output, total);
    }
}

template <class T>
const Loops<T>& loops_of(Reduction reduction) {
    switch (reduction) {
        case Reduction::sum:
            return kLoops<Sum, T>;
        case Reduction::largest:
            return kLoops<Largest, T>;
        case Reduction::smallest:
            return kLoops<Smallest, T>;
        case Reduction::squared_deviation:
            return kLoops<SquaredDeviation, T>;
        case Reduction::count_equal:
            return kLoops<CountEqual, T>;
        case Reduction::exp_sum:
            return kLoops<ExpSum, T>;
        case Reduction::product:
            return kLoops<Product, T>;
        case Reduction::product_of_nonzero:
            return kLoops<ProductOfNonzero, T>;
    }
    return kLoops<Sum, T>;  // not reached
}

}  // namespace

ReductionPlan::ReductionPlan(const Stream& stream, Reduction reduction, const View& x, const View* center, double scale,
                             const View& y, float beta)
    : reduction_(reduction), x_(x), y_(y), scale_(scale), beta_(beta), loops_(x, center, y) {
    if (center != nullptr) center_ = *center;
    if (on_cuda(stream)) partition_.emplace(loops_, x.dtype);
}

void ReductionPlan::run(CpuStream& stream, std::byte*) const {
    if (y_.numel() == 0) return;
    const Result result{y_, scale_, beta_};
    const View* const center = center_ ? &*center_ : nullptr;
    dispatch_compute(x_.dtype, [&]<class T>(TypeTag<T>) {
        const Loops<T>& loops = loops_of<T>(reduction_);
        if (loops_.columns) {
            reduce_columns(stream, loops, loops_, x_, center, result);
        } else {
            reduce_rows(stream, loops, loops_, x_, center, result);
        }
    });
}

}  // namespace headroom::kernels
