#pragma once
// An array for tests of kernels: any dtype, in one of several layouts, in memory of its own that is all NaN at first,
// so that a kernel that reads what it should only write is found out. Elements are read and written as double, in
// row-major order. Not for speed.
//
//     TestArray x(Dtype::bf16, {3, 5}, Layout::gaps);
//     x.fill(random);
//     kernels::softmax(stream, x, y);
//     EXPECT_TRUE(y.gaps_untouched());
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels::test {

enum class Layout {
    contiguous,
    gaps,        // every second element of longer rows
    transposed,  // the last axis is the outermost in memory
    shifted,     // contiguous from the memory's second element on: no vector is aligned
    slice,       // rows lie apart, each begins at a multiple of eight elements
    ragged,      // rows lie apart by an odd number of elements, from the second element on
};

inline constexpr Layout kLayouts[] = {Layout::contiguous, Layout::gaps, Layout::transposed};
inline constexpr Dtype kFloating[] = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64};

/// Where element i of a view lies, counted in row-major order.
inline std::int64_t offset_of(const View& view, std::int64_t i) {
    std::int64_t result = 0;
    for (int axis = view.rank() - 1; axis >= 0; --axis) {
        result += i % view.shape[axis] * view.strides[axis];
        i /= view.shape[axis];
    }
    return result;
}

/// The same of all elements.
inline std::vector<std::int64_t> offsets_of(const View& view) {
    std::vector<std::int64_t> result;
    for (std::int64_t i = 0; i < view.numel(); ++i) result.push_back(offset_of(view, i));
    return result;
}

class TestArray {
  public:
    TestArray(Dtype dtype, const Shape& shape, Layout layout = Layout::contiguous) : layout_(layout) {
        view_ = {nullptr, dtype, shape, contiguous_strides(shape)};
        std::int64_t room = shape.numel();
        if (layout == Layout::slice || layout == Layout::ragged) {
            for (int i = shape.rank() - 2; i >= 0; --i) {
                const std::int64_t pitch =
                    layout == Layout::ragged ? (shape.back() | 1) + 2 : (shape.back() + 15) / 8 * 8;
                view_.strides[i] = i == shape.rank() - 2 ? pitch : view_.strides[i + 1] * shape[i + 1];
            }
            if (shape.rank() > 1) room = view_.strides[0] * shape[0];
        } else if (layout == Layout::gaps) {
            room = 2;
            for (int i = shape.rank() - 1; i >= 0; --i) {
                view_.strides[i] = room;
                room = room * shape[i] + 1;
            }
        } else if (layout == Layout::transposed) {
            room = 1;
            for (int i = 0; i < shape.rank(); ++i) {
                view_.strides[i] = room;
                room *= shape[i];
            }
        }
        memory_.assign((static_cast<std::size_t>(room) + 1) * size_of(dtype), std::byte{0xff});
        first_ = layout == Layout::shifted || layout == Layout::ragged ? size_of(dtype) : 0;
        view_.data = memory_.data() + first_;
    }

    TestArray(const TestArray& other)
        : memory_(other.memory_), first_(other.first_), view_(other.view_), layout_(other.layout_) {
        view_.data = memory_.data() + first_;
    }
    /// The same elements with other strides, from the memory's element `first` on.
    TestArray(const TestArray& other, const Strides& strides, std::int64_t first)
        : first_(static_cast<std::size_t>(first) * size_of(other.view_.dtype)),
          view_(other.view_),
          layout_(other.layout_) {
        view_.strides = strides;
        const std::int64_t last = numel() == 0 ? 0 : offset(numel() - 1);  // strides are positive
        memory_.assign(first_ + (static_cast<std::size_t>(last) + 2) * size_of(view_.dtype), std::byte{0xff});
        view_.data = memory_.data() + first_;
        const std::size_t size = size_of(view_.dtype);
        for (std::int64_t i = 0; i < numel(); ++i)
            std::memcpy(view_.at(offset(i)), other.view_.at(other.offset(i)), size);
    }
    TestArray& operator=(const TestArray&) = delete;

    /// That it was made with.
    Layout layout() const { return layout_; }
    operator const View&() const { return view_; }
    const View& view() const { return view_; }
    std::int64_t numel() const { return view_.numel(); }
    const std::vector<std::byte>& memory() const { return memory_; }
    std::byte* begin_of_memory() { return memory_.data(); }
    /// Where the view begins in the memory, in bytes.
    std::size_t first() const { return first_; }

    double get(std::int64_t i) const { return kernels::load_one<double>(view_.at(offset(i)), view_.dtype); }
    void set(std::int64_t i, double value) { kernels::store_one(value, view_.at(offset(i)), view_.dtype); }
    std::int64_t get_integer(std::int64_t i) const {
        return kernels::load_one<std::int64_t>(view_.at(offset(i)), view_.dtype);
    }

    std::vector<double> values() const {
        std::vector<double> result;
        for (std::int64_t i = 0; i < numel(); ++i) result.push_back(get(i));
        return result;
    }

    /// Normal variates, rounded to the dtype.
    void fill(std::mt19937_64& random, double mean = 0, double deviation = 1) {
        std::normal_distribution<double> distribution(mean, deviation);
        for (std::int64_t i = 0; i < numel(); ++i) set(i, distribution(random));
    }
    /// Integers in [0, bound).
    void fill_indices(std::mt19937_64& random, std::int64_t bound) {
        std::uniform_int_distribution<std::int64_t> distribution(0, bound - 1);
        for (std::int64_t i = 0; i < numel(); ++i) set(i, static_cast<double>(distribution(random)));
    }

    /// True if the memory between the elements is as it was.
    bool gaps_untouched() const {
        TestArray copy(*this);
        const std::size_t size = size_of(view_.dtype);
        for (std::int64_t i = 0; i < numel(); ++i) {
            const auto first = first_ + static_cast<std::size_t>(offset(i)) * size;
            for (std::size_t j = 0; j < size; ++j) copy.memory_[first + j] = std::byte{0xff};
        }
        return copy.memory_ == std::vector<std::byte>(memory_.size(), std::byte{0xff});
    }

  private:
    std::int64_t offset(std::int64_t i) const { return offset_of(view_, i); }

    std::vector<std::byte> memory_;
    std::size_t first_ = 0;
    View view_;
    Layout layout_;
};

/// The dtype in which a kernel computes.
inline Dtype compute_dtype(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }
/// For results in another dtype than the operands': f64 of f32, f32 of all others.
inline Dtype other_width(Dtype dtype) { return dtype == Dtype::f32 ? Dtype::f64 : Dtype::f32; }

/// The most by which rounding `value` to `dtype` changes it, subnormal numbers of f16 included.
inline double rounding(Dtype dtype, double value) {
    return epsilon(dtype) * std::abs(value) + (dtype == Dtype::f16 ? 0x1p-24 : 0x1p-126);
}

/// What an array of `dtype` holds of a number; how numbers are converted is convert_test's.
inline double stored(Dtype dtype, double value) {
    TestArray one(dtype, {});
    one.set(0, value);
    return one.get(0);
}

/// The elements of `source` in another dtype, contiguous.
inline TestArray converted(const TestArray& source, Dtype dtype) {
    TestArray result(dtype, source.view().shape);
    for (std::int64_t i = 0; i < source.numel(); ++i) result.set(i, source.get(i));
    return result;
}

inline double dot(const TestArray& a, const TestArray& b) {
    double sum = 0;
    for (std::int64_t i = 0; i < a.numel(); ++i) sum += a.get(i) * b.get(i);
    return sum;
}

/// A short text for SCOPED_TRACE.
inline std::string describe(const View& view) {
    return std::string(name(view.dtype)) + " " + view.shape.to_string() + " strides " + view.strides.to_string();
}

}  // namespace headroom::kernels::test
