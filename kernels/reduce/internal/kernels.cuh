#pragma once
// The three CUDA kernels of all reductions over axes. Within a thread's runs of 32, a block computes in f32 (f64 for
// f64 and integers); it joins the results in f64, in an order set by the partition.
//
// Rows: the innermost axis is reduced; a team of threads computes one output, or one part of it.
// Columns: the innermost axis is kept; threads are side by side and move down, in several rows at once.
// Join: merges the parts, if there are several.
#include <cstdint>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/reduce/internal/partition.hpp>
#include <headroom/kernels/reduce/internal/sources.cuh>

namespace headroom::kernels {

/// The operands of StridedAxes<3> below.
enum ReduceOperand { kOutput, kInput, kCenter };

struct ReduceTarget {
    void* y;
    Dtype dtype;
    double scale;
    float beta;
    double* partials;
    std::int64_t outputs, parts;

    /// `output` is the output's number, `offset` its place in y.
    HEADROOM_DEVICE void put(std::int64_t output, std::int64_t offset, std::int64_t part, double total) const {
        if (parts > 1) {
            partials[part * outputs + output] = total;
        } else {
            device::accumulate_as<double>(y, dtype, offset, beta, scale * total);
        }
    }
};

struct ReduceCenter {
    const void* data;
    Dtype dtype;

    template <class T>
    HEADROOM_DEVICE T at(std::int64_t offset) const {
        return data ? device::load_as<T>(data, dtype, offset) : T{};
    }
};

/// `op` in the form that block.reduce expects.
template <class Op>
struct MergeWith {
    Op op;
    HEADROOM_DEVICE double operator()(double a, double b) const { return op.merge(a, b); }
};

/// Joins the numbers of a team: neighbouring threads, a power of two, up to a warp. The whole warp must call it.
template <class Op>
HEADROOM_DEVICE double merge_team(device::Block& block, const Op& op, double total, unsigned team) {
    for (unsigned step = 1; step < team; step *= 2) {
        total = op.merge(total, block.shuffle_xor(device::kFullWarp, total, step));
    }
    return total;
}

template <class Op, class Source>
struct ReduceRows {
    static constexpr unsigned kMaxThreads = Partition::kThreads;
    static constexpr int kWidth = Source::kWidth;
    using T = typename Source::Number;

    Op op;
    Source x;
    ReduceCenter center;
    ReduceTarget target;
    device::StridedAxes<3> kept;
    device::StridedAxes<1> reduced;  ///< in groups
    std::int64_t groups, rest;
    unsigned team;

    HEADROOM_DEVICE void operator()(device::Block& block) const {
        const std::int64_t output = std::int64_t{block.x()} * (block.threads() / team) + block.thread() / team;
        const unsigned rank = block.thread() % team;
        const bool mine = output < target.outputs;
        device::Offsets<3> at{};
        double total = Op::start;
        if (mine) {
            at = kept.offsets(output);
            total = reduce_part(block, at[kInput], center.at<T>(at[kCenter]), rank);
        }
        if (team > device::kWarp) {
            total = block.reduce<double>(total, MergeWith<Op>{op}, Op::start, block.shared<double>(block.warps()));
        } else {
            total = merge_team(block, op, total, team);
        }
        if (mine && rank == 0) target.put(output, at[kOutput], block.y(), total);
    }

    HEADROOM_DEVICE double reduce_part(device::Block& block, std::int64_t start, T middle, unsigned rank) const {
        const std::int64_t part = block.y();
        double total = Op::start;
        T sums[kWidth];
        for (T& sum : sums) sum = static_cast<T>(Op::start);
        const auto flush = [&] {
            T joined[kWidth];
#pragma unroll
            for (int k = 0; k < kWidth; ++k) {
                joined[k] = sums[k];
                sums[k] = static_cast<T>(Op::start);
            }
#pragma unroll
            for (int half = kWidth / 2; half > 0; half /= 2) {
#pragma unroll
                for (int k = 0; k < half; ++k) joined[k] = op.merge(joined[k], joined[k + half]);
            }
            total = op.merge(total, static_cast<double>(joined[0]));
        };
        const auto load = [&](std::int64_t i) { return x.load(block, start + reduced.offsets(i)[0]); };
        const auto add = [&](const Numbers<T, kWidth>& values) {
#pragma unroll
            for (int k = 0; k < kWidth; ++k) sums[k] = op.add(sums[k], values[k], middle);
        };
        in_fours(groups * part / target.parts + rank, groups * (part + 1) / target.parts, team, load, add, flush);
        if (part + 1 < target.parts) return total;
        for (std::int64_t i = rank; i < rest; i += team) {
            const T value = op.add(static_cast<T>(Op::start), x.one(start + kWidth * groups + i), middle);
            total = op.merge(total, static_cast<double>(value));
        }
        return total;
    }
};

template <class Op, class Source>
struct ReduceColumns {
    static constexpr unsigned kMaxThreads = Partition::kThreads;
    static constexpr int kWidth = Source::kWidth;
    using T = typename Source::Number;

    Op op;
    Source x;
    ReduceCenter center;
    ReduceTarget target;
    device::StridedAxes<3> kept;
    device::StridedAxes<1> reduced;
    ReduceAxis inner;
    std::int64_t rows, tiles;
    unsigned team;

    HEADROOM_DEVICE void operator()(device::Block& block) const {
        const std::int64_t line = block.x() / tiles, tile = block.x() % tiles;
        const device::Offsets<3> at = kept.offsets(line);
        const unsigned lane = block.thread() % team;
        const std::int64_t column = (tile * team + lane) * kWidth;
        double totals[kWidth];
#pragma unroll
        for (double& total : totals) total = Op::start;
        if (column + kWidth <= inner.size) {
            reduce_part(block, at, column, kWidth, totals, [&](std::int64_t i) { return x.load(block, i); });
        } else if (kWidth > 1 && column < inner.size) {
            const auto width = static_cast<int>(inner.size - column);
            reduce_part(block, at, column, width, totals, [&](std::int64_t i) {
                Numbers<T, kWidth> values{};
#pragma unroll
                for (int k = 0; k < kWidth; ++k)
                    if (k < width) values[k] = x.one(i + k * inner.x);
                return values;
            });
        }
        join(block, totals, line, tile, at[kOutput]);
    }

    template <class Load>
    HEADROOM_DEVICE void reduce_part(device::Block& block, const device::Offsets<3>& at, std::int64_t column, int width,
                                     double (&totals)[kWidth], const Load& load_at) const {
        const std::int64_t part = block.y();
        const std::int64_t start = at[kInput] + column * inner.x;
        T sums[kWidth], middle[kWidth];
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
            sums[k] = static_cast<T>(Op::start);
            middle[k] = k < width ? center.at<T>(at[kCenter] + (column + k) * inner.center) : T{};
        }
        const auto load = [&](std::int64_t i) { return load_at(start + reduced.offsets(i)[0]); };
        const auto add = [&](const Numbers<T, kWidth>& values) {
#pragma unroll
            for (int k = 0; k < kWidth; ++k) sums[k] = op.add(sums[k], values[k], middle[k]);
        };
        const auto flush = [&] {
#pragma unroll
            for (int k = 0; k < kWidth; ++k) {
                totals[k] = op.merge(totals[k], static_cast<double>(sums[k]));
                sums[k] = static_cast<T>(Op::start);
            }
        };
        const std::int64_t first = rows * part / target.parts + block.thread() / team;
        in_fours(first, rows * (part + 1) / target.parts, block.threads() / team, load, add, flush);
    }

    /// Joins the totals of the threads above each other, in one thread per column.
    HEADROOM_DEVICE void join(device::Block& block, const double (&totals)[kWidth], std::int64_t line,
                              std::int64_t tile, std::int64_t offset) const {
        const unsigned threads = block.threads(), thread = block.thread();
        const device::Shared<double> shared = block.shared<double>(threads * kWidth);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) shared[k * threads + thread] = totals[k];
        block.sync();
        const std::int64_t column = tile * team * kWidth + thread;
        if (thread >= team * kWidth || column >= inner.size) return;
        const unsigned first = thread % kWidth * threads + thread / kWidth;
        double total = shared[first];
        for (unsigned below = team; below < threads; below += team) {
            const double other = shared[first + below];
            total = op.merge(total, other);
        }
        target.put(line * inner.size + column, offset + column * inner.y, block.y(), total);
    }
};

template <class Op>
struct JoinParts {
    static constexpr unsigned kMaxThreads = Partition::kThreads;

    Op op;
    ReduceTarget target;
    device::StridedAxes<3> kept;  ///< everything, columns included
    unsigned team;

    HEADROOM_DEVICE void operator()(device::Block& block) const {
        const std::int64_t output = block.global_thread() / team;
        const unsigned rank = block.thread() % team;
        double total = Op::start;
        if (output < target.outputs) {
            for (std::int64_t part = rank; part < target.parts; part += team) {
                total = op.merge(total, target.partials[part * target.outputs + output]);
            }
        }
        total = merge_team(block, op, total, team);
        if (output >= target.outputs || rank != 0) return;
        const std::int64_t offset = kept.offsets(output)[kOutput];
        device::accumulate_as<double>(target.y, target.dtype, offset, target.beta, target.scale * total);
    }
};

}  // namespace headroom::kernels
