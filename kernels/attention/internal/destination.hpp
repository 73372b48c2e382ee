#pragma once
// Where one head's rows of a gradient are summed: in the gradient itself if its rows are whole vectors of the compute
// type, else in scratch, from which `finish` adds them.
//
//     Destination<float> to(gradient.dq, batch, head, first, count, beta, scratch);
//     block.per_query(dscores, keys, row, to.row(0), to.stride(), to.accumulates(key_block > 0));
//     to.finish(buffer);
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/attention/internal/block.hpp>
#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// True if a gradient of this layout needs no scratch, or is not wanted (rank 0). Does not depend on data, because
/// scratch must not.
template <class T>
bool sums_in_place(const View& target) {
    if (target.rank() == 0) return true;
    return target.dtype == dtype_of<T> && target.stride(3) == 1 && target.size(3) % kLanes<T> == 0;
}

template <class T>
class Destination {
  public:
    /// Rows [first, first + count). `scratch` must have room for their padded rows; it is not used if `sums_in_place`.
    Destination(const View& target, std::int64_t batch, std::int64_t head, std::int64_t first, std::int64_t count,
                float beta, T* scratch)
        : target_(target),
          batch_(batch),
          head_(head),
          first_(first),
          count_(count),
          beta_(static_cast<T>(beta)),
          in_place_(sums_in_place<T>(target)),
          data_(scratch) {
        if (!wanted()) return;
        stride_ = in_place_ ? target.stride(1) : padded<T>(target.size(3));
        if (!in_place_) return;
        data_ = reinterpret_cast<T*>(row_of(target, batch, first, head));
        if (beta == 0 || beta == 1) return;
        for (std::int64_t i = 0; i < count; ++i) {
            for (std::int64_t d = 0; d < target.size(3); ++d) row(i)[d] *= beta_;
        }
    }

    bool wanted() const { return target_.data != nullptr; }
    T* row(std::int64_t i) const { return data_ + i * stride_; }
    std::int64_t stride() const { return stride_; }
    /// True if the next sum adds to the contents; `begun`: an earlier sum was already written.
    bool accumulates(bool begun) const { return begun || (in_place_ && beta_ != 0); }

    /// Clears rows [from, to), which have received no sums.
    void clear(std::int64_t from, std::int64_t to) const {
        if (!wanted() || accumulates(false)) return;
        for (std::int64_t i = from; i < to; ++i) std::fill_n(row(i), target_.size(3), T{0});
    }

    /// `buffer` must have room for one row.
    void finish(T* buffer) const {
        if (!wanted() || in_place_) return;
        const std::int64_t width = target_.size(3), column = target_.stride(3);
        for (std::int64_t i = 0; i < count_; ++i) {
            std::byte* to = row_of(target_, batch_, first_ + i, head_);
            T* sums = row(i);
            if (beta_ != 0) {
                load(to, target_.dtype, column, width, buffer);
                for (std::int64_t d = 0; d < width; ++d) sums[d] += beta_ * buffer[d];
            }
            store(sums, width, to, target_.dtype, column);
        }
    }

  private:
    const View& target_;
    std::int64_t batch_, head_, first_, count_;
    T beta_;
    bool in_place_;
    T* data_;
    std::int64_t stride_ = 0;
};

}  // namespace headroom::kernels
