#pragma once
// A view of i32 or i64 indices, read one by one in row-major order, with a range check.
//
//     const Indices indices(ids);
//     indices.check("embedding: index", rows);       // throws before anything is written
//     for (std::int64_t i = 0; i < indices.count(); ++i) use(indices[i]);
#include <cstdint>

#include <fmt/format.h>

#include <headroom/kernels/view.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

class Indices {
  public:
    explicit Indices(const View& view) : view_(view), count_(view.numel()), contiguous_(view.is_contiguous()) {}

    std::int64_t count() const { return count_; }

    std::int64_t operator[](std::int64_t i) const { return at(contiguous_ ? i : offset(i)); }

    /// The element at `offset` elements from the start of the view's memory.
    std::int64_t at(std::int64_t offset) const {
        return view_.dtype == Dtype::i64 ? view_.as<const std::int64_t>()[offset]
                                         : view_.as<const std::int32_t>()[offset];
    }

    /// Errors: ShapeError with `what`, the value, its position and the bound, for an element outside [0, bound).
    void check(const char* what, std::int64_t bound) const {
        for (std::int64_t i = 0; i < count_; ++i) fail_unless((*this)[i], i, what, bound);
    }
    /// The same for elements that hold the caller's number minus 1: those numbers must be from 1 to `most`, and errors
    /// show them.
    void check_less_one(const char* what, std::int64_t most) const {
        for (std::int64_t i = 0; i < count_; ++i) fail_unless((*this)[i] + 1, i, what, most + 1, 1);
    }
    /// The same, but also accepts the value `ignored`.
    void check(const char* what, std::int64_t bound, std::int64_t ignored) const {
        for (std::int64_t i = 0; i < count_; ++i) {
            if ((*this)[i] != ignored) fail_unless((*this)[i], i, what, bound);
        }
    }

  private:
    static void fail_unless(std::int64_t value, std::int64_t position, const char* what, std::int64_t bound,
                            std::int64_t first = 0) {
        if (value >= first && value < bound) return;
        throw ShapeError(
            fmt::format("{} {} at position {} is outside of [{}, {})", what, value, position, first, bound));
    }

    std::int64_t offset(std::int64_t i) const {
        std::int64_t result = 0;
        for (int axis = view_.rank() - 1; axis >= 0; --axis) {
            result += i % view_.shape[axis] * view_.strides[axis];
            i /= view_.shape[axis];
        }
        return result;
    }

    View view_;
    std::int64_t count_;
    bool contiguous_;
};

}  // namespace headroom::kernels
