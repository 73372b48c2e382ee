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

/// One number out of all reduced axes, the runs' results being joined in f64.
template <class Op, class T>
double reduce_to_one(const View& x, std::int64_t start, const ReduceAxes& outer, const ReduceAxis& inner, T center) {
    double total = Op::start;
    outer.for_each([&](std::int64_t offset) {
        T buffer[kChunk];
        for (std::int64_t begin = 0; begin < inner.size; begin += kChunk) {
            const std::int64_t count = std::min(kChunk, inner.size - begin);
            const T* run = borrow(x.at(start + offset + begin * inner.x), x.dtype, inner.x, count, buffer);
            total = Op::merge(total, static_cast<double>(combine_run<Op, T>(run, count, center)));
        }
    });
    return total;
}

/// The accumulators of a block of columns. Rows are taken four at a time, so that the accumulators themselves move
/// through the processor four times less often.
template <class Op, class T>
class ColumnBlock {
  public:
    /// `total` has room for `count` <= kBlock numbers.
    ColumnBlock(std::int64_t count, const T* center, double* total) : count_(count), center_(center), total_(total) {
        std::fill_n(total_, count_, Op::start);
        std::fill_n(sums_, count_, static_cast<T>(Op::start));
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
    static constexpr int kTogether = 4;

    void add_waiting() {
        const T *a = rows_[0], *b = rows_[1], *c = rows_[2], *d = rows_[3];
        if (waiting_ == kTogether) {
#pragma omp simd
            for (std::int64_t j = 0; j < count_; ++j) {
                const T pair = Op::add(Op::add(sums_[j], a[j], center_[j]), b[j], center_[j]);
                sums_[j] = Op::add(Op::add(pair, c[j], center_[j]), d[j], center_[j]);
            }
        } else {
            for (int i = 0; i < waiting_; ++i) {
                const T* row = rows_[i];
#pragma omp simd
                for (std::int64_t j = 0; j < count_; ++j) sums_[j] = Op::add(sums_[j], row[j], center_[j]);
            }
        }
        pending_ += waiting_;
        waiting_ = 0;
        if (pending_ >= kRowsPerFlush) flush();
    }

    void flush() {
        for (std::int64_t j = 0; j < count_; ++j) total_[j] = Op::merge(total_[j], static_cast<double>(sums_[j]));
        std::fill_n(sums_, count_, static_cast<T>(Op::start));
        pending_ = 0;
    }

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

template <class Op, class T>
void reduce_rows(CpuStream& stream, const ReduceLoops& plan, const View& x, const View* center, const Result& result) {
    ReduceAxes reduced = plan.reduced;
    reduced.push_back(plan.inner);
    const std::int64_t outputs = plan.kept.numel();
    const std::int64_t elements = reduced.numel();
    const std::int64_t room = kMaxPartials * kBlock / outputs;
    const std::int64_t parts = outputs < 64 ? parts_of(reduced, elements, std::min<std::int64_t>(room, 64)) : 1;
    const auto reduce_part = [&](std::int64_t output, std::int64_t part) {
        const ReduceOffsets at = plan.kept.offsets(output);
        const T middle = center ? load_one<T>(center->at(at.center), center->dtype) : T{0};
        if (parts == 1) return reduce_to_one<Op, T>(x, at.x, plan.reduced, plan.inner, middle);
        std::int64_t start = 0;
        ReduceAxes outer = reduced.part(part, parts, start);
        const ReduceAxis inner = outer.pop_back();
        return reduce_to_one<Op, T>(x, at.x + start, outer, inner, middle);
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
        for (std::int64_t part = 1; part < parts; ++part) *total = Op::merge(*total, total[part]);
        result.put(total, 1, plan.kept.offsets(output).y, 1);
    }
}

template <class Op, class T>
void reduce_columns(CpuStream& stream, const ReduceLoops& plan, const View& x, const View* center,
                    const Result& result) {
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
        ColumnBlock<Op, T> block(count, middle, total);
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
            const double* other = partials[output * parts + part];
            for (std::int64_t j = 0; j < columns_of(output); ++j) total[j] = Op::merge(total[j], other[j]);
        }
        put(output, total);
    }
}

template <class Op, class T>
void reduce_with(CpuStream& stream, const ReduceLoops& loops, const View& x, const View* center, const Result& result) {
    if (loops.columns) {
        reduce_columns<Op, T>(stream, loops, x, center, result);
    } else {
        reduce_rows<Op, T>(stream, loops, x, center, result);
    }
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
        switch (reduction_) {
            case Reduction::sum:
                return reduce_with<Sum, T>(stream, loops_, x_, center, result);
            case Reduction::largest:
                return reduce_with<Largest, T>(stream, loops_, x_, center, result);
            case Reduction::smallest:
                return reduce_with<Smallest, T>(stream, loops_, x_, center, result);
            case Reduction::squared_deviation:
                return reduce_with<SquaredDeviation, T>(stream, loops_, x_, center, result);
            case Reduction::count_equal:
                return reduce_with<CountEqual, T>(stream, loops_, x_, center, result);
            case Reduction::exp_sum:
                return reduce_with<ExpSum, T>(stream, loops_, x_, center, result);
            case Reduction::product:
                return reduce_with<Product, T>(stream, loops_, x_, center, result);
            case Reduction::product_of_nonzero:
                return reduce_with<ProductOfNonzero, T>(stream, loops_, x_, center, result);
        }
    });
}

}  // namespace headroom::kernels
