#pragma once
// Arrays and scratch for the examples of the kernels' headers, which take both for granted.
//
//     const TestArray x = array({2, 3}, {1, 2});      // f32: 1, 2, 1, 2, 1, 2
//     Memory allocate;
//     std::byte* scratch = allocate(plan.scratch());  // lives as long as `allocate`
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels::test {

using Numbers = std::vector<double>;

/// A contiguous array of these values in row-major order, over and over.
inline TestArray array(const Shape& shape, const Numbers& values, Dtype dtype = Dtype::f32) {
    TestArray result(dtype, shape);
    for (std::int64_t i = 0; i < result.numel(); ++i)
        result.set(i, values[static_cast<std::size_t>(i) % values.size()]);
    return result;
}

inline void expect_near(const TestArray& x, const Numbers& values) {
    ASSERT_EQ(x.values().size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(x.values()[i], values[i], 1e-4) << "at " << i;
}

class Memory {
  public:
    /// 64-byte aligned.
    std::byte* operator()(std::size_t bytes) {
        blocks_.emplace_back(bytes / sizeof(Line) + 1);
        return blocks_.back().front().bytes;
    }

  private:
    struct alignas(64) Line {
        std::byte bytes[64];
    };
    std::deque<std::vector<Line>> blocks_;
};

}  // namespace headroom::kernels::test
