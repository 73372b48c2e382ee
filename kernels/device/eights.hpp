#pragma once
// Arrays of f32, f16 and bf16 in groups of eight elements, for element-wise kernels with 16-byte accesses: two for f32,
// one for halves. The dtypes are known only at run time, and must be the same for all threads. The innermost elements
// must be adjacent and start at multiples of 16 bytes: `Strided` handles other arrays element by element.
//
//     const Eights<2> at({&y, &x});                               // host; the output first
//     if (at.possible()) launch(stream, ..., Twice{}, at);
//     ... for (std::int64_t g = block.global_thread(); g < at.groups(); g += block.global_threads()) {
//         const auto offsets = at.offsets(g);                     // kernel; elements 8 g to 8 g + 7
//         at.store(block, 0, offsets, twice(at.load(block, 1, offsets)));
//     }
//     // the elements after the last whole group, at most seven:
//     const std::int64_t i = at.rest(block.global_thread());      // < 0: nothing for this thread
//     if (i >= 0) at.store_one(0, i, 2 * at.load_one(1, i));
#include <bit>
#include <cstdint>

#include <headroom/kernels/device/block.hpp>
#include <headroom/kernels/device/elements.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/view.hpp>
#include <headroom/kernels/walk.hpp>

namespace headroom::kernels::device {

/// Elements p[offset] to p[offset + 7].
HEADROOM_DEVICE Floats<8> load_eight(Block& block, const void* p, Dtype dtype, std::int64_t offset) {
    if (dtype == Dtype::f16) return block.load_floats<8>(static_cast<const f16*>(p) + offset);
    if (dtype == Dtype::bf16) return block.load_floats<8>(static_cast<const bf16*>(p) + offset);
    return block.load_floats<8>(static_cast<const float*>(p) + offset);
}
HEADROOM_DEVICE void store_eight(Block& block, void* p, Dtype dtype, std::int64_t offset, const Floats<8>& values) {
    if (dtype == Dtype::f16) return block.store_floats(static_cast<f16*>(p) + offset, values);
    if (dtype == Dtype::bf16) return block.store_floats(static_cast<bf16*>(p) + offset, values);
    block.store_floats(static_cast<float*>(p) + offset, values);
}

/// True if elements can be accessed in groups that start at multiples of `bytes` in memory: for each operand of the
/// walk the elements are adjacent (or, except for the first operand, one repeated element) and rows start at such a
/// multiple. The caller checks the length of rows.
inline bool rows_aligned(const kernels::Walk& walk, const View* const* views, int operands, std::int64_t bytes) {
    for (int k = 0; k < operands; ++k) {
        const auto size = static_cast<std::int64_t>(size_of(views[k]->dtype));
        if (k > 0 && walk.axis_stride(k, 0) == 0) continue;
        if (walk.axis_stride(k, 0) != 1) return false;
        if (std::bit_cast<std::uintptr_t>(views[k]->data) % static_cast<std::uintptr_t>(bytes) != 0) return false;
        for (int i = 1; i < walk.axes(); ++i) {
            if (walk.axis_stride(k, i) * size % bytes != 0) return false;
        }
    }
    return true;
}

/// The axes of a walk with the innermost one in groups of `width` elements; only whole groups count, and strides stay
/// in elements.
template <int N>
StridedAxes<N> grouped(const kernels::Walk& walk, std::int64_t width) {
    View views[N];
    const View* pointers[N];
    for (int k = 0; k < N; ++k) {
        for (int i = walk.axes() - 1; i >= 0; --i) {
            views[k].shape.push_back(i == 0 ? walk.axis_size(0) / width : walk.axis_size(i));
            views[k].strides.push_back(i == 0 ? walk.axis_stride(k, 0) * width : walk.axis_stride(k, i));
        }
        pointers[k] = &views[k];
    }
    return StridedAxes<N>(kernels::Walk(pointers, N, kernels::Walk::Order::shape), N);
}

/// N arrays of the same shape, or broadcast to the first one's. Trivially copyable.
template <int N>
class Eights {
  public:
    explicit Eights(const View* const (&views)[N], kernels::Walk::Order order = kernels::Walk::Order::memory) {
        const kernels::Walk walk(views, N, order);
        elements_ = walk.rows() * walk.row_size();
        possible_ = (walk.axes() == 1 || walk.row_size() % 8 == 0) && rows_aligned(walk, views, N, 16);
        if (possible_) axes_ = grouped<N>(walk, 8);
        for (int k = 0; k < N; ++k) {
            data_[k] = views[k]->data;
            dtype_[k] = views[k]->dtype;
            repeats_[k] = walk.axis_stride(k, 0) == 0;
            possible_ = possible_ && is_floating(dtype_[k]) && dtype_[k] != Dtype::f64;
        }
    }

    bool possible() const { return possible_; }
    HEADROOM_DEVICE std::int64_t numel() const { return elements_; }
    HEADROOM_DEVICE std::int64_t groups() const { return axes_.numel(); }
    HEADROOM_DEVICE Offsets<N> offsets(std::int64_t group) const { return axes_.offsets(group); }

    HEADROOM_DEVICE Floats<8> load(Block& block, int operand, const Offsets<N>& offsets) const {
        if (!repeats_[operand]) return load_eight(block, data_[operand], dtype_[operand], offsets[operand]);
        const float value = load_as<float>(data_[operand], dtype_[operand], offsets[operand]);
        return {{value, value, value, value, value, value, value, value}};
    }
    HEADROOM_DEVICE void store(Block& block, int operand, const Offsets<N>& offsets, const Floats<8>& values) const {
        store_eight(block, data_[operand], dtype_[operand], offsets[operand], values);
    }

    /// The leftover element of a thread, counted along the grid; -1 if there is none.
    HEADROOM_DEVICE std::int64_t rest(std::int64_t thread) const {
        const std::int64_t i = 8 * groups() + thread;
        return i < elements_ ? i : -1;
    }
    /// For elements from `rest`.
    HEADROOM_DEVICE float load_one(int operand, std::int64_t i) const {
        return load_as<float>(data_[operand], dtype_[operand], repeats_[operand] ? 0 : i);
    }
    HEADROOM_DEVICE void store_one(int operand, std::int64_t i, float value) const {
        store_as<float>(data_[operand], dtype_[operand], i, value);
    }

  private:
    StridedAxes<N> axes_;
    std::int64_t elements_ = 0;
    void* data_[N] = {};
    Dtype dtype_[N] = {};
    bool repeats_[N] = {};
    bool possible_ = false;
};

}  // namespace headroom::kernels::device
