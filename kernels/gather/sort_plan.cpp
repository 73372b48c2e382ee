#include <headroom/kernels/gather/internal/sort_plan.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

void check_sortable(const char* op, std::int64_t positions, std::int64_t rows) {
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    if (std::max(positions, rows) <= most) return;
    throw ShapeError(
        fmt::format("{}: at most {} positions and rows can be sorted, got {} and {}", op, most, positions, rows));
}

}  // namespace headroom::kernels
