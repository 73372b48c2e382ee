#pragma once
// A view as a list of rows: its last axis is a run of elements, the other axes count the rows. Kernels that work along
// the last axis read and write runs of at most kChunk elements through it, for any dtype and strides. Element-wise
// kernels merge axes first instead.
//
//     const Rows in(x), out(y);
//     parallel_for(stream, in.count(), x.numel(), [&](std::int64_t row) {
//         float buffer[kChunk];
//         const float* values = in.read(row, 0, n, buffer);   // no copy if contiguous f32
//         ...
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// target[i * stride] = beta * target[i * stride] + values[i] for at most kChunk elements; beta is not 0.
template <class T>
void accumulate(const T* values, std::int64_t count, float beta, void* target, Dtype dtype, std::int64_t stride) {
    T buffer[kChunk];
    T* sum = borrow_target(target, dtype, stride, count, buffer);
    if (sum == buffer) load(target, dtype, stride, count, buffer);
    const T factor = static_cast<T>(beta);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) sum[i] = factor * sum[i] + values[i];
    settle(sum, count, target, dtype, stride);
}

/// Calls `work(begin, count)` for pieces of at most kChunk elements.
template <class Work>
void for_each_chunk(std::int64_t length, Work&& work) {
    for (std::int64_t begin = 0; begin < length; begin += kChunk) work(begin, std::min(kChunk, length - begin));
}

class Rows {
  public:
    /// A view of rank 0 is one row of one element.
    explicit Rows(const View& view) : view_(view) {
        const int rank = view.rank();
        length_ = rank == 0 ? 1 : view.shape[rank - 1];
        stride_ = rank == 0 ? 1 : view.strides[rank - 1];
        for (int i = rank - 2; i >= 0; --i) {
            if (view.shape[i] == 1) continue;
            if (count_ == 1) step_ = view.strides[i];
            regular_ = regular_ && view.strides[i] == step_ * count_;
            count_ *= view.shape[i];
        }
    }

    std::int64_t count() const { return count_; }
    std::int64_t length() const { return length_; }
    std::int64_t stride() const { return stride_; }

    /// The address of element `begin` of a row.
    std::byte* at(std::int64_t row, std::int64_t begin = 0) const { return view_.at(offset(row) + begin * stride_); }

    /// Elements [begin, begin + count) of a row: the memory itself, or `buffer`, which must have room for `count`.
    template <class T>
    const T* read(std::int64_t row, std::int64_t begin, std::int64_t count, T* buffer) const {
        return borrow(at(row, begin), view_.dtype, stride_, count, buffer);
    }

    /// Where to write elements [begin, begin + count) of a row before calling `write`: the memory itself, or `buffer`.
    template <class T>
    T* target(std::int64_t row, std::int64_t begin, std::int64_t count, T* buffer, float beta = 0) const {
        return beta == 0 ? borrow_target(at(row, begin), view_.dtype, stride_, count, buffer) : buffer;
    }

    /// Completes `target`: row = beta * row + values, for at most kChunk elements.
    template <class T>
    void write(const T* values, std::int64_t row, std::int64_t begin, std::int64_t count, float beta = 0) const {
        if (beta == 0) {
            settle(values, count, at(row, begin), view_.dtype, stride_);
        } else {
            accumulate(values, count, beta, at(row, begin), view_.dtype, stride_);
        }
    }

    /// row[begin + i] = beta * row[begin + i] + value(i) for i in [0, count). count is at most kChunk, and `buffer`
    /// must have room for it.
    template <class T, class Value>
    void add(std::int64_t row, std::int64_t begin, std::int64_t count, float beta, T* buffer, Value&& value) const {
        std::byte* memory = at(row, begin);
        T* target = borrow_target(memory, view_.dtype, stride_, count, buffer);
        if (beta == 0) {
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i) target[i] = value(i);
        } else {
            if (target == buffer) load(memory, view_.dtype, stride_, count, buffer);
            const T factor = static_cast<T>(beta);
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i) target[i] = factor * target[i] + value(i);
        }
        settle(target, count, memory, view_.dtype, stride_);
    }

  private:
    std::int64_t offset(std::int64_t row) const {
        if (regular_) return row * step_;
        std::int64_t result = 0;
        for (int i = view_.rank() - 2; i >= 0; --i) {
            result += row % view_.shape[i] * view_.strides[i];
            row /= view_.shape[i];
        }
        return result;
    }

    View view_;
    std::int64_t count_ = 1, length_ = 1, stride_ = 1, step_ = 0;
    bool regular_ = true;
};

/// One row of `rows`, read chunk by chunk, possibly several times: a row that fits in one chunk is converted only once.
template <class T>
class RowReader {
  public:
    RowReader(const Rows& rows, std::int64_t row) : rows_(rows), row_(row) {}

    const T* operator()(std::int64_t begin, std::int64_t count) {
        if (whole_) return whole_;
        const T* values = rows_.read(row_, begin, count, buffer_);
        if (count == rows_.length()) whole_ = values;
        return values;
    }

  private:
    const Rows& rows_;
    std::int64_t row_;
    const T* whole_ = nullptr;
    T buffer_[kChunk];
};

}  // namespace headroom::kernels
