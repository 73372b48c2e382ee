#pragma once
// For the tables of reductions: shapes before and after, and which elements become one.
//
//     const auto destination = destinations(x.shape(), y.shape());
//     for (std::size_t i = 0; i < destination.size(); ++i) sums[destination[i]] += x.get(i);
#include <string>
#include <vector>

#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels::test {

/// For each element of x the position of the element of y that it is reduced into.
inline std::vector<std::size_t> destinations(const Shape& x, const Shape& y) {
    const auto offsets = offsets_of(broadcast_to(contiguous_view(nullptr, Dtype::u8, y), x));
    return {offsets.begin(), offsets.end()};
}

struct ReducedAxes {
    Shape x, y;
    std::string name() const { return "/" + to_name(x) + "_to_" + to_name(y); }
};

}  // namespace headroom::kernels::test
