#pragma once
// Element offsets of arrays with any strides, for kernels: `Strided` for element-wise kernels (merged and sorted axes,
// see walk.hpp), `Rows` for kernels along the last axis. Created on the host, passed to a kernel by value. Not needed
// for arrays without gaps, where an element's number is its offset.
//
//     const Strided<2> at({&y, &x});                              // host; the output first
//     launch(stream, ..., Neg{}, at);
//     ... for (std::int64_t i = block.global_thread(); i < at.numel(); i += block.global_threads()) {
//         const auto offsets = at.offsets(i);                     // kernel
//         at.store<float>(0, offsets, -at.load<float>(1, offsets));
//     }
//
//     const Rows x(view);                                         // host
//     const std::int64_t row = x.offset(block.x());               // kernel
//     float value = x.load<float>(row, i);                        // i < x.length()
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include <headroom/kernels/device/elements.hpp>
#include <headroom/kernels/view.hpp>
#include <headroom/kernels/walk.hpp>

namespace headroom::kernels::device {

/// Division by a number known on the host, as a multiplication and a shift (Granlund and Montgomery 1994).
class Divisor {
  public:
    Divisor() = default;
    /// value >= 1
    explicit Divisor(std::int64_t value) : value_(value) {
        const auto d = static_cast<std::uint64_t>(value);
        shift_ = static_cast<std::uint32_t>(std::bit_width(d - 1));
        const std::uint64_t rest = (std::uint64_t{1} << shift_) - d;
        wide_ = static_cast<std::uint64_t>((static_cast<Wide>(rest) << 64) / d) + 1;
        narrow_ = static_cast<std::uint32_t>((rest << 32) / d + 1);
    }

    constexpr std::int64_t value() const { return value_; }
    /// n / value(), for n and value() below 2^31.
    HEADROOM_DEVICE std::uint32_t divide(std::uint32_t n) const {
        const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * narrow_) >> 32);
        return (high + n) >> shift_;
    }
    /// The same for n and value() below 2^63.
    HEADROOM_DEVICE std::uint64_t divide(std::uint64_t n) const { return (high_product(n, wide_) + n) >> shift_; }

  private:
    __extension__ typedef unsigned __int128 Wide;

    /// The upper half of the 128-bit product.
    HEADROOM_DEVICE static std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDACC__)
        return __umul64hi(a, b);
#else
        return static_cast<std::uint64_t>((static_cast<Wide>(a) * b) >> 64);
#endif
    }
    std::int64_t value_ = 1;
    std::uint64_t wide_ = 1;
    std::uint32_t narrow_ = 1;
    std::uint32_t shift_ = 0;
};

/// N offsets, in elements. Index it only with constants and loop variables of unrolled loops.
template <int N>
struct Offsets {
    std::int64_t at[N];
    HEADROOM_DEVICE std::int64_t& operator[](int i) { return at[i]; }
    HEADROOM_DEVICE std::int64_t operator[](int i) const { return at[i]; }
};

/// Maps element numbers to offsets for up to N operands, over the axes that a Walk left.
template <int N>
class StridedAxes {
  public:
    StridedAxes() = default;
    StridedAxes(const kernels::Walk& walk, int operands) : axes_(walk.axes()) {
        elements_ = walk.rows() * walk.row_size();
        constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
        narrow_ = elements_ <= most;
        for (int i = 0; i < axes_; ++i) {
            size_[i] = Divisor(std::max<std::int64_t>(1, walk.axis_size(i)));
            for (int k = 0; k < operands; ++k) {
                stride_[k][i] = walk.axis_stride(k, i);
                narrow_ = narrow_ && stride_[k][i] <= most && stride_[k][i] >= -most;
            }
        }
    }

    constexpr int axes() const { return axes_; }
    constexpr std::int64_t numel() const { return elements_; }
    /// The size of the innermost axis.
    constexpr std::int64_t row_size() const { return size_[0].value(); }
    constexpr std::int64_t stride(int operand, int axis = 0) const { return stride_[operand][axis]; }

    /// The offsets of element i, 0 <= i < numel(), with the last axis varying fastest. Divides once per axis except the
    /// outermost, in 32 bits if all numbers fit.
    HEADROOM_DEVICE Offsets<N> offsets(std::int64_t i) const {
        return narrow_ ? offsets_by<std::uint32_t, std::int32_t>(static_cast<std::uint32_t>(i))
                       : offsets_by<std::uint64_t, std::int64_t>(static_cast<std::uint64_t>(i));
    }

  private:
    template <class Number, class Stride>
    HEADROOM_DEVICE Offsets<N> offsets_by(Number i) const {
        Offsets<N> result{};
        // Unrolled: a variable index would copy the strides to local memory.
#if defined(__CUDACC__)
#pragma unroll
#endif
        for (int axis = 0; axis < kMaxRank; ++axis) {
            const bool last = axis == axes_ - 1;
            const Number rest = last ? Number{0} : size_[axis].divide(i);
            const auto position = static_cast<Stride>(last ? i : i - rest * static_cast<Number>(size_[axis].value()));
#if defined(__CUDACC__)
#pragma unroll
#endif
            for (int k = 0; k < N; ++k) result[k] += std::int64_t{position} * static_cast<Stride>(stride_[k][axis]);
            if (last) break;
            i = rest;
        }
        return result;
    }

    int axes_ = 1;
    bool narrow_ = true;
    std::int64_t elements_ = 0;
    Divisor size_[kMaxRank];
    std::int64_t stride_[N][kMaxRank] = {};
};

/// N arrays of the same shape, or broadcast to that of the first, which must not have a stride of 0. Trivially
/// copyable.
template <int N>
class Strided : public StridedAxes<N> {
  public:
    static_assert(N <= kernels::kMaxOperands);
    Strided() = default;
    /// Errors: none; all views must fit the first, as for Walk.
    explicit Strided(const View* const (&views)[N], kernels::Walk::Order order = kernels::Walk::Order::memory)
        : StridedAxes<N>(kernels::Walk(views, N, order), N) {
        for (int k = 0; k < N; ++k) {
            data_[k] = views[k]->data;
            dtype_[k] = views[k]->dtype;
        }
    }

    constexpr void* data(int operand) const { return data_[operand]; }
    constexpr Dtype dtype(int operand) const { return dtype_[operand]; }

    template <class T>
    HEADROOM_DEVICE T load(int operand, const Offsets<N>& offsets) const {
        return load_as<T>(data_[operand], dtype_[operand], offsets[operand]);
    }
    template <class T>
    HEADROOM_DEVICE void store(int operand, const Offsets<N>& offsets, T value) const {
        store_as<T>(data_[operand], dtype_[operand], offsets[operand], value);
    }
    /// target = beta target + value; with beta = 0, the target is not read.
    template <class T>
    HEADROOM_DEVICE void accumulate(int operand, const Offsets<N>& offsets, float beta, T value) const {
        accumulate_as<T>(data_[operand], dtype_[operand], offsets[operand], beta, value);
    }

  private:
    void* data_[N] = {};
    Dtype dtype_[N] = {};
};

/// One array as a list of rows: its last axis is a row, the other axes count the rows, in the shape's own order. An
/// array without axes is one row of one element. Trivially copyable.
class Rows {
  public:
    Rows() = default;
    explicit Rows(const View& view) : data_(view.data), dtype_(view.dtype) {
        const int rank = view.rank();
        if (rank > 0) {
            length_ = view.size(rank - 1);
            stride_ = view.stride(rank - 1);
        }
        View first = view;  // the first elements of the rows
        if (rank > 0) first.shape.erase(rank - 1), first.strides.erase(rank - 1);
        leading_ = StridedAxes<1>(kernels::Walk({&first}, kernels::Walk::Order::shape), 1);
    }

    constexpr std::int64_t count() const { return leading_.numel(); }
    constexpr std::int64_t length() const { return length_; }
    /// Distance from one element of a row to the next, in elements.
    constexpr std::int64_t stride() const { return stride_; }
    constexpr void* data() const { return data_; }
    constexpr Dtype dtype() const { return dtype_; }
    /// True if the elements of a row are adjacent and rows start at multiples of 16 bytes in memory.
    bool vectors() const {
        const auto size = static_cast<std::int64_t>(size_of(dtype_));
        bool aligned = std::bit_cast<std::uintptr_t>(data_) % 16 == 0;
        for (int i = 0; i < leading_.axes() && count() > 1; ++i) {
            aligned = aligned && leading_.stride(0, i) * size % 16 == 0;
        }
        return aligned && (stride_ == 1 || length_ <= 1);
    }

    /// Offset of a row, in elements from data(); 0 <= row < count(). Cheap if rows are evenly spaced.
    HEADROOM_DEVICE std::int64_t offset(std::int64_t row) const { return leading_.offsets(row)[0]; }
    /// Pointer to the first element of a row, for arrays known to hold T.
    template <class T>
    HEADROOM_DEVICE T* row(std::int64_t row) const {
        return static_cast<T*>(data_) + offset(row);
    }

    /// Element i of the row that starts at `offset`.
    template <class T>
    HEADROOM_DEVICE T load(std::int64_t offset, std::int64_t i) const {
        return load_as<T>(data_, dtype_, offset + i * stride_);
    }
    template <class T>
    HEADROOM_DEVICE void store(std::int64_t offset, std::int64_t i, T value) const {
        store_as<T>(data_, dtype_, offset + i * stride_, value);
    }
    /// element = beta element + value; with beta = 0, the element is not read.
    template <class T>
    HEADROOM_DEVICE void accumulate(std::int64_t offset, std::int64_t i, float beta, T value) const {
        accumulate_as<T>(data_, dtype_, offset + i * stride_, beta, value);
    }

  private:
    void* data_ = nullptr;
    Dtype dtype_ = Dtype::f32;
    std::int64_t length_ = 1, stride_ = 1;
    StridedAxes<1> leading_;
};

}  // namespace headroom::kernels::device
