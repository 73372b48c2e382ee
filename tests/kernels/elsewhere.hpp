#pragma once
// Arrays of a test in other places: where one condition alone forbids vectors, and beyond 32 bits. Both take arrays
// whose layout leaves gaps (Layout::slice), and leave others as they are.
//
//     const TestArray x = moved(array, kAddress);      // or the axis whose stride is to be odd
//     FarApart far;
//     const View y = far.put(array);                   // for the emulator, which takes the host's memory
#include <cstring>
#include <deque>
#include <memory>

#include <headroom/tests/kernels/reserved_memory.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels::test {

inline constexpr int kNothing = -2, kAddress = -1;

/// Rows lie apart by multiples of 64 elements, where the layout leaves gaps at all, but for what is moved.
inline TestArray moved(const TestArray& x, int what) {
    Strides strides = x.view().strides;
    for (int i = x.view().rank() - 2; i >= 0 && x.layout() == Layout::slice; --i)
        strides[i] = (strides[i + 1] * x.view().shape[i + 1] + 63) / 64 * 64 + (i == what ? 1 : 0);
    return {x, strides, what == kAddress ? 1 : 0};
}

/// The trial's arrays beyond 32 bits, as far as their layout lets rows lie apart: the last two rows are more than 2^32
/// elements from the first, by strides that fit into 32 bits if there are four.
class FarApart {
  public:
    View put(const TestArray& x) {
        View view = x;
        const int rank = view.rank();
        if (x.layout() == Layout::slice && rank > 1 && x.numel() > 0) {
            std::int64_t rows = x.numel() / view.shape[rank - 1];
            for (int i = rank - 2; i >= 0; --i)
                view.strides[i] = i == rank - 2
                                      ? (rows < 4 ? (std::int64_t{1} << 32) + 64 : (std::int64_t{1} << 31) - 64)
                                      : view.strides[i + 1] * view.shape[i + 1];
        }
        const std::size_t size = size_of(view.dtype);
        const std::int64_t last = x.numel() == 0 ? 0 : offset_of(view, x.numel() - 1);
        memory_.push_back(std::make_unique<ReservedMemory>(static_cast<std::size_t>(last + 64) * size));
        view.data = memory_.back()->data();
        for (std::int64_t i = 0; i < x.numel(); ++i)
            std::memcpy(view.at(offset_of(view, i)), x.view().at(offset_of(x, i)), size);
        return view;
    }
    static void get(const View& view, TestArray& x) {
        for (std::int64_t i = 0; i < x.numel(); ++i)
            std::memcpy(x.view().at(offset_of(x, i)), view.at(offset_of(view, i)), size_of(view.dtype));
    }

  private:
    std::deque<std::unique_ptr<ReservedMemory>> memory_;
};

}  // namespace headroom::kernels::test
