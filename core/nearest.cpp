#include <headroom/core/nearest.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/core/parameters.hpp>

namespace headroom {

namespace {

std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
        }
    }
    return row.back();
}

}  // namespace

std::vector<std::string> nearest(std::string_view wanted, std::vector<std::string> names, std::size_t count) {
    const std::size_t shown = std::min(names.size(), count);
    std::partial_sort(
        names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), names.end(),
        [&](const std::string& a, const std::string& b) { return distance(wanted, a) < distance(wanted, b); });
    names.resize(shown);
    return names;
}

std::string nearest_parameters(const Parameters& parameters, std::string_view pattern) {
    std::vector<std::string> paths;
    for (const Parameter& parameter : parameters.all()) {
        if (!parameter.buffer) paths.push_back(parameter.path);
    }
    if (paths.empty()) return "";
    return fmt::format("; the nearest are {}", fmt::join(nearest(pattern, std::move(paths), 3), ", "));
}

}  // namespace headroom
