#pragma once
// The common part of the CPU kernels of recurrent networks: which sequences have ended, and matrices whose columns are
// parts for several gates, processed in runs.
//
//     const Gates<4> gates(view);                     // [B, 4 H]
//     for_runs(stream, batch, width, cost, [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
//         float buffers[4][kRun], *a[4];
//         gates.open(row, begin, count, buffers, a);   // a[k][j] may be read and written
//         gates.close(row, begin, count, a);
//     });
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <headroom/kernels/indices.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/rows.hpp>

namespace headroom::kernels {

/// The index of each sequence's last element; without them, none ends early.
class Ends {
  public:
    explicit Ends(const View& last) : given_(last.rank() != 0), last_(last) {}
    bool ended(std::int64_t row, std::int64_t time) const { return given_ && time > last_[row]; }

  private:
    bool given_;
    Indices last_;
};

/// Elements of a row processed at a time: their buffers are on the stack.
inline constexpr std::int64_t kRun = 256;

/// Calls `work(row, begin, count)` for runs of [rows, length]; `cost` is per element.
template <class Work>
void for_runs(const CpuStream& stream, std::int64_t rows, std::int64_t length, std::int64_t cost, Work&& work) {
    const std::int64_t runs = (length + kRun - 1) / kRun;
    parallel_for(stream, rows * runs, rows * length * cost, [&](std::int64_t i) {
        const std::int64_t begin = i % runs * kRun;
        work(i / runs, begin, std::min(kRun, length - begin));
    });
}

/// Column part `part` of `parts` of a matrix.
inline View part_of(View x, int part, int parts) {
    x.shape[1] /= parts;
    if (x.data) x.data = x.at(part * x.shape[1] * x.stride(1));
    return x;
}

template <int N>
class Gates {
  public:
    /// The first N of `parts` parts.
    explicit Gates(const View& x, int parts = N) : Gates(x, parts, std::make_integer_sequence<int, N>{}) {}

    template <class T>
    void read(std::int64_t row, std::int64_t begin, std::int64_t count, T (*buffers)[kRun], const T** values) const {
        for (int k = 0; k < N; ++k) values[k] = parts_[k].read(row, begin, count, buffers[k]);
    }
    /// For reading and writing: the memory itself, or buffers that `close` stores.
    template <class T>
    void open(std::int64_t row, std::int64_t begin, std::int64_t count, T (*buffers)[kRun], T** values) const {
        for (int k = 0; k < N; ++k) {
            parts_[k].read(row, begin, count, buffers[k]);
            values[k] = parts_[k].target(row, begin, count, buffers[k]);
        }
    }
    template <class T>
    void close(std::int64_t row, std::int64_t begin, std::int64_t count, T* const* values) const {
        for (int k = 0; k < N; ++k) parts_[k].write(values[k], row, begin, count);
    }

  private:
    template <int... Part>
    Gates(const View& x, int parts, std::integer_sequence<int, Part...>) : parts_{Rows(part_of(x, Part, parts))...} {}

    Rows parts_[N];
};

}  // namespace headroom::kernels
