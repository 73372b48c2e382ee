#pragma once
// Two ways to access rows, with the same functions, for kernels that work along the last axis. `Wide<T>` accesses 16
// bytes at a time, for consecutive elements of f32, f16 or bf16; `General<C>` accesses single elements of any dtype and
// stride. A kernel is a template over the way. A row consists of vectors of the way's kWidth elements.
//
//     template <class Way> ... operator()(Block& block, typename Way::Rows x, typename Way::Target y, ...) const {
//         const auto in = x.row(i, true);
//         const auto out = y.row(i, true);
//         for (auto v = in.index(thread); v < in.vectors(); v += threads) out.store(block, v, 0, in.load(block, v, 0));
//
// Rows may begin anywhere. A wide row is cut into vectors at addresses that are multiples of 16; where its first and
// last vector reach beyond the row, elements are accessed one by one. All wide rows of a kernel must be cut at the same
// elements (`same_cuts`).
#include <bit>
#include <cstdint>
#include <type_traits>

#include <headroom/kernels/device/block.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/dispatch.hpp>

namespace headroom::kernels::device {

template <class C, int N>
struct Numbers {
    C at[N];
    HEADROOM_DEVICE C& operator[](int i) { return at[i]; }
    HEADROOM_DEVICE const C& operator[](int i) const { return at[i]; }
};
/// A vector's elements in the compute type.
template <class C, int N>
using Items = std::conditional_t<std::is_same_v<C, float>, Floats<N>, Numbers<C, N>>;

/// Returns p after telling nvcc that it points to global memory; p must not be null. Where a row may have two dtypes or
/// be missing, nvcc can't tell and would use generic accesses.
template <class T>
HEADROOM_DEVICE T* global(T* p) {
#if defined(__CUDACC__)
    __builtin_assume(__isGlobal(p));
    return p;
#else
    return p;
#endif
}

/// Elements [i, i + N) of p, with `otherwise` for those outside [begin, end). p + i must be a multiple of the vector's
/// size.
template <int N, class T>
HEADROOM_DEVICE Floats<N> load_span(Block& block, const T* p, int i, int begin, int end, float otherwise) {
    p = global(p);
    if (i >= begin && i + N <= end) return block.load_floats<N>(p + i);
    Floats<N> values;
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] = i + k >= begin && i + k < end ? as_float(p[i + k]) : otherwise;
    return values;
}

/// The same for stores: p = beta p + values; with beta = 0, p is not read.
template <int N, class T>
HEADROOM_DEVICE void store_span(Block& block, T* p, int i, int begin, int end, float beta, Floats<N> values) {
    p = global(p);
    if (beta != 0.0f) {
        const Floats<N> old = load_span<N>(block, static_cast<const T*>(p), i, begin, end, 0.0f);
#pragma unroll
        for (int k = 0; k < N; ++k) values[k] += beta * old[k];
    }
    if (i >= begin && i + N <= end) return block.store_floats(p + i, values);
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (i + k >= begin && i + k < end) p[i + k] = rounded<T>(values[k]);
}

/// The position of a row in its vectors: elements [begin, end), counted from the start of the first vector.
template <int Width>
struct WideSpan {
    int begin, end;
    HEADROOM_DEVICE int index(unsigned thread) const { return static_cast<int>(thread); }
    HEADROOM_DEVICE int vectors() const { return (end + Width - 1) / Width; }
    HEADROOM_DEVICE bool whole(int v) const { return v * Width >= begin && v * Width + Width <= end; }
    /// True if element k of vector v belongs to the row.
    HEADROOM_DEVICE bool holds(int v, int k) const { return v * Width + k >= begin && v * Width + k < end; }
    /// The position of the row's element i in vector v; outside [0, Width) if it is in another vector.
    HEADROOM_DEVICE std::int64_t place(int v, std::int64_t i) const { return begin + i - v * Width; }
};

template <class T>
struct Wide {
    using Compute = float;
    using Index = int;
    static constexpr int kWidth = kWide<T>;
    /// Vectors of a row that a thread keeps in registers, and of each of two rows.
    static constexpr int kKept = 4;
    static constexpr int kKeptOfTwo = 16 / kWidth;

    /// A vector as stored in memory: 16 bytes.
    using Packed = Vector<T, kWidth>;
    HEADROOM_DEVICE static Floats<kWidth> unpacked(const Packed& packed) {
        Floats<kWidth> values;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) values[k] = as_float(packed[k]);
        return values;
    }

    struct Row : WideSpan<kWidth> {
        const T* base;
        HEADROOM_DEVICE Floats<kWidth> load(Block& block, int v, float otherwise) const {
            return load_span<kWidth>(block, base, v * kWidth, this->begin, this->end, otherwise);
        }
        /// Zeros outside the row.
        HEADROOM_DEVICE Packed packed(Block& block, int v) const {
            const T* const p = global(base);
            if (this->whole(v)) return block.load<kWidth>(p + v * kWidth);
            Packed values;
#pragma unroll
            for (int k = 0; k < kWidth; ++k) values[k] = this->holds(v, k) ? p[v * kWidth + k] : rounded<T>(0.0f);
            return values;
        }
        HEADROOM_DEVICE float at(std::int64_t i) const { return as_float(global(base)[this->begin + i]); }
    };
    static constexpr bool kIsF32 = std::is_same_v<T, float>;
    struct OtherRow : WideSpan<kWidth> {
        void* base;
        Dtype dtype;
        HEADROOM_DEVICE void store(Block& block, int v, float beta, const Floats<kWidth>& values) const {
            if (kIsF32 && dtype == Dtype::f16) return store_elements<f16>(block, v, beta, values);
            if (kIsF32 && dtype == Dtype::bf16) return store_elements<bf16>(block, v, beta, values);
            if (!kIsF32 && dtype == Dtype::f32) return store_elements<float>(block, v, beta, values);
            store_elements<T>(block, v, beta, values);
        }
        /// Zeros outside the row. Not for f32 rows in a kernel of halves, which would be rounded.
        HEADROOM_DEVICE Packed packed(Block& block, int v) const {
            if (kIsF32 && dtype == Dtype::f16) return widened<f16>(block, v);
            if (kIsF32 && dtype == Dtype::bf16) return widened<bf16>(block, v);
            return Row{*this, static_cast<const T*>(base)}.packed(block, v);
        }

      private:
        template <class Element>
        HEADROOM_DEVICE void store_elements(Block& block, int v, float beta, const Floats<kWidth>& values) const {
            store_span<kWidth>(block, static_cast<Element*>(base), v * kWidth, this->begin, this->end, beta, values);
        }
        template <class Half>
        HEADROOM_DEVICE Packed widened(Block& block, int v) const {
            const Floats<kWidth> values =
                load_span<kWidth>(block, static_cast<const Half*>(base), v * kWidth, this->begin, this->end, 0.0f);
            Packed packed;
#pragma unroll
            for (int k = 0; k < kWidth; ++k) packed[k] = rounded<T>(values[k]);
            return packed;
        }
    };

    HEADROOM_DEVICE static int phase(const T* p) {
        return static_cast<int>(std::bit_cast<std::uintptr_t>(p) % 16 / sizeof(T));
    }
    class Rows {
      public:
        explicit Rows(const View& view) : rows_(view) {}
        /// `exists` = false: an empty row, at an address that is not null.
        HEADROOM_DEVICE Row row(std::int64_t i, bool exists) const {
            if (!exists) return {{0, 0}, static_cast<const T*>(rows_.data())};
            const T* p = rows_.template row<const T>(i);
            const int begin = phase(p);
            return {{begin, begin + static_cast<int>(rows_.length())}, p - begin};
        }

      private:
        device::Rows rows_;
    };
    /// Rows to write, or to read in addition to the kernel's own. They are of T, or f32 in a kernel of halves, or
    /// halves in a kernel of f32. If their element size differs from T's, rows must start at multiples of 16 bytes.
    class Others {
      public:
        explicit Others(const View& view) : rows_(view) {}
        HEADROOM_DEVICE OtherRow row(std::int64_t i, bool exists) const {
            if (!exists) return {{0, 0}, rows_.data(), dtype_of<T>};
            const int length = static_cast<int>(rows_.length());
            using Other = std::conditional_t<kIsF32, f16, float>;  // or bf16, as wide
            if (rows_.dtype() != dtype_of<T>) return {{0, length}, rows_.template row<Other>(i), rows_.dtype()};
            T* p = rows_.template row<T>(i);
            const int begin = phase(p);
            return {{begin, begin + length}, p - begin, dtype_of<T>};
        }

      private:
        device::Rows rows_;
    };
    using TargetRow = OtherRow;
    using Target = Others;
    /// A vector over the last axis in T or f32 that starts at a multiple of 16 bytes; null stands for a constant.
    class Weights {
      public:
        Weights(const View* view, std::int64_t length)
            : data_(view ? view->data : nullptr), length_(static_cast<int>(length)) {
            f32_ = view != nullptr && view->dtype == Dtype::f32;
        }
        HEADROOM_DEVICE Floats<kWidth> load(Block& block, int v, float otherwise) const {
            if (data_ == nullptr) {
                Floats<kWidth> values;
#pragma unroll
                for (int k = 0; k < kWidth; ++k) values[k] = otherwise;
                return values;
            }
            if (f32_) return load_span<kWidth>(block, static_cast<const float*>(data_), v * kWidth, 0, length_, 0.0f);
            return load_span<kWidth>(block, static_cast<const T*>(data_), v * kWidth, 0, length_, 0.0f);
        }

      private:
        const void* data_;
        int length_;
        bool f32_ = false;
    };
};

template <class C>
struct General {
    using Compute = C;
    using Index = std::int64_t;
    static constexpr int kWidth = 1;
    static constexpr int kKept = 8;
    static constexpr int kKeptOfTwo = 8;

    using Packed = Items<C, 1>;
    HEADROOM_DEVICE static Items<C, 1> unpacked(const Packed& packed) { return packed; }

    struct Row {
        void* data;
        std::int64_t offset, stride, length;
        Dtype dtype;
        HEADROOM_DEVICE Index index(unsigned thread) const { return thread; }
        HEADROOM_DEVICE Index vectors() const { return length; }
        HEADROOM_DEVICE bool whole(Index) const { return true; }
        HEADROOM_DEVICE bool holds(Index, int) const { return true; }
        HEADROOM_DEVICE std::int64_t place(Index v, std::int64_t i) const { return i - v; }
        HEADROOM_DEVICE Items<C, 1> load(Block&, Index v, C) const { return {at(v)}; }
        HEADROOM_DEVICE Packed packed(Block&, Index v) const { return {at(v)}; }
        HEADROOM_DEVICE C at(std::int64_t i) const { return load_as<C>(data, dtype, offset + i * stride); }
        HEADROOM_DEVICE void store(Block&, Index v, float beta, const Items<C, 1>& values) const {
            accumulate_as<C>(data, dtype, offset + v * stride, beta, values[0]);
        }
    };
    class Rows {
      public:
        explicit Rows(const View& view) : rows_(view) {}
        HEADROOM_DEVICE Row row(std::int64_t i, bool exists) const {
            return {rows_.data(), exists ? rows_.offset(i) : 0, rows_.stride(), exists ? rows_.length() : 0,
                    rows_.dtype()};
        }

      private:
        device::Rows rows_;
    };
    using Others = Rows;
    using TargetRow = Row;
    using Target = Rows;
    class Weights {
      public:
        Weights(const View* view, std::int64_t) {
            if (view == nullptr) return;
            data_ = view->data, dtype_ = view->dtype, stride_ = view->stride(0);
        }
        HEADROOM_DEVICE Items<C, 1> load(Block&, Index v, C otherwise) const {
            if (data_ == nullptr) return {otherwise};
            return {load_as<C>(data_, dtype_, v * stride_)};
        }

      private:
        const void* data_ = nullptr;
        Dtype dtype_ = Dtype::f32;
        std::int64_t stride_ = 0;
    };
};

// --- The host's choice.

/// True if the elements of a row are adjacent and of a dtype with vector access.
inline bool has_wide_rows(const View& x) {
    const bool kind = x.dtype == Dtype::f32 || is_half(x.dtype);
    const int last = x.rank() - 1;
    return kind && (last < 0 || x.shape[last] <= 1 || (x.strides[last] == 1 && x.shape[last] < (1 << 30)));
}
/// True if rows of x and y, both wide and of the same dtype, are cut at the same elements.
inline bool same_cuts(const View& x, const View& y) {
    const auto distance = std::bit_cast<std::uintptr_t>(x.data) - std::bit_cast<std::uintptr_t>(y.data);
    bool same = has_wide_rows(x) && has_wide_rows(y) && x.dtype == y.dtype && distance % 16 == 0;
    for (int i = 0; i < x.rank() - 1; ++i) {
        const std::int64_t apart = (x.strides[i] - y.strides[i]) * static_cast<std::int64_t>(size_of(x.dtype));
        same = same && (x.shape[i] <= 1 || apart % 16 == 0);
    }
    return same;
}
/// True if rows start at multiples of 16 bytes.
inline bool has_aligned_rows(const View& x) { return has_wide_rows(x) && Rows(x).vectors(); }
/// True if `y` can be the target of a kernel whose rows are cut like x's.
inline bool is_wide_target(const View& x, const View& y) {
    if (x.dtype == y.dtype) return same_cuts(x, y);
    return (x.dtype == Dtype::f32 || y.dtype == Dtype::f32) && has_aligned_rows(x) && has_aligned_rows(y);
}
/// True if such a kernel can read `y` in addition to x.
inline bool is_wide_source(const View& x, const View& y) {
    return (x.dtype == y.dtype || x.dtype == Dtype::f32) && is_wide_target(x, y);
}
/// True if `weight`, null or a vector over the last axis, can be used with aligned rows of x.
inline bool is_wide_weight(const View& x, const View* weight) {
    return weight == nullptr ||
           ((weight->dtype == x.dtype || weight->dtype == Dtype::f32) && has_aligned_rows(*weight));
}

/// The most accesses that a row of `length` elements takes.
template <class Way>
constexpr std::int64_t vectors_of(std::int64_t length) {
    return (length + 2 * (Way::kWidth - 1)) / Way::kWidth;
}

/// Calls `work(Wide<T>{})` if `wide`, else `work(General<C>{})`.
template <class Work>
void dispatch_way(Dtype dtype, bool wide, Work&& work) {
    if (dtype == Dtype::f64) return work(General<double>{});
    if (!wide) return work(General<float>{});
    if (dtype == Dtype::f16) return work(Wide<f16>{});
    if (dtype == Dtype::bf16) return work(Wide<bf16>{});
    work(Wide<float>{});
}

}  // namespace headroom::kernels::device
