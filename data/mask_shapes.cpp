#include <headroom/data/mask_shapes.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

// Boundaries are drawn on a grid that is finer by this.
constexpr int kFine = 5;

/// Where the fill of a polygon begins and ends, counted down the columns.
class Crossings {
  public:
    Crossings(std::int64_t height, std::int64_t width) : height_(height), width_(width) {}

    /// The next point of the boundary on the fine grid, next to the one before.
    void visit(int x, int y) {
        if (begun_ && x != x_) {
            // A column is filled from where the boundary passes its middle.
            const std::int64_t column = std::min(x, x_) - kFine / 2, row = std::min(y, y_) - kFine / 2;
            if (column >= 0 && column % kFine == 0 && column / kFine < width_)
                places_.push_back(column / kFine * height_ +
                                  (row <= 0 ? 0 : std::min((row + kFine - 1) / kFine, height_)));
        }
        begun_ = true;
        x_ = x;
        y_ = y;
    }

    void fill(Image& image) {
        places_.push_back(height_ * width_);  // the end of what is open
        std::sort(places_.begin(), places_.end());
        for (std::size_t i = 0; i + 1 < places_.size(); i += 2)
            for (std::int64_t at = places_[i]; at < places_[i + 1]; ++at) *image.at(at % height_, at / height_) = 1;
    }

  private:
    std::int64_t height_, width_;
    std::vector<std::int64_t> places_;
    bool begun_ = false;
    int x_ = 0, y_ = 0;
};

/// Points of the fine grid from (x0, y0) to (x1, y1), the same in both directions.
void visit_edge(Crossings& crossings, int x0, int y0, int x1, int y1) {
    const int dx = std::abs(x1 - x0), dy = std::abs(y1 - y0);
    const bool flat = dx >= dy;
    const int steps = flat ? dx : dy;
    const bool backwards = flat ? x0 > x1 : y0 > y1;
    if (backwards) std::swap(x0, x1), std::swap(y0, y1);
    const double slope = steps == 0 ? 0 : static_cast<double>(flat ? y1 - y0 : x1 - x0) / steps;
    for (int i = 0; i <= steps; ++i) {
        const int t = backwards ? steps - i : i;
        const int side = static_cast<int>((flat ? y0 : x0) + slope * t + 0.5);
        crossings.visit(flat ? x0 + t : side, flat ? side : y0 + t);
    }
}

int on_fine_grid(double coordinate) { return static_cast<int>(kFine * coordinate + 0.5); }

}  // namespace

void check_polygon(const std::vector<double>& polygon, std::int64_t height, std::int64_t width) {
    if (polygon.size() < 6 || polygon.size() % 2 != 0)
        throw Error(
            fmt::format("a polygon needs an even number of coordinates, at least 6, and has {}", polygon.size()));
    for (std::size_t i = 0; i < polygon.size(); ++i) {
        const std::int64_t extent = i % 2 == 0 ? width : height;
        const auto size = static_cast<double>(extent);
        if (!(polygon[i] >= -size && polygon[i] <= 2 * size))
            throw Error(fmt::format("the coordinate {} of a polygon is far outside of the image, of {} pixels",
                                    polygon[i], extent));
    }
}

void check_runs(std::span<const std::uint32_t> counts, std::int64_t height, std::int64_t width) {
    const std::uint64_t sum = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    if (sum != static_cast<std::uint64_t>(height * width))
        throw Error(fmt::format("runs of {} pixels do not form a mask that is {}", sum, wide_and_high(height, width)));
}

Image fill_polygons(const std::vector<std::vector<double>>& polygons, std::int64_t height, std::int64_t width) {
    Image image(height, width, 1);
    for (const std::vector<double>& polygon : polygons) {
        check_polygon(polygon, height, width);
        std::vector<std::pair<int, int>> points;
        for (std::size_t i = 0; i < polygon.size(); i += 2)
            points.emplace_back(on_fine_grid(polygon[i]), on_fine_grid(polygon[i + 1]));
        points.push_back(points.front());
        Crossings crossings(height, width);
        for (std::size_t i = 1; i < points.size(); ++i)
            visit_edge(crossings, points[i - 1].first, points[i - 1].second, points[i].first, points[i].second);
        crossings.fill(image);
    }
    return image;
}

Image decode_runs(std::span<const std::uint32_t> counts, std::int64_t height, std::int64_t width) {
    check_runs(counts, height, width);
    Image image(height, width, 1);
    std::int64_t at = 0;
    std::uint8_t value = 0;
    for (const std::uint32_t count : counts) {
        for (const std::int64_t end = at + count; at < end; ++at) *image.at(at % height, at / height) = value;
        value = !value;
    }
    return image;
}

std::vector<std::uint32_t> parse_runs(std::string_view text) {
    std::vector<std::uint32_t> counts;
    for (std::size_t at = 0; at < text.size();) {
        std::int64_t value = 0;
        bool more = true;
        for (int shift = 0; more; shift += 5, ++at) {
            const int digit = at < text.size() ? text[at] - '0' : -1;
            if (digit < 0 || digit > 63 || shift > 35)
                throw Error(fmt::format("the run lengths are damaged at character {}", at));
            value |= static_cast<std::int64_t>(digit & 31) << shift;
            more = (digit & 32) != 0;
            if (!more && (digit & 16) != 0) value -= std::int64_t{32} << shift;
        }
        if (counts.size() > 2) value += counts[counts.size() - 2];
        if (value < 0 || value > std::numeric_limits<std::uint32_t>::max())
            throw Error(fmt::format("the run lengths are damaged before character {}: {} pixels", at, value));
        counts.push_back(static_cast<std::uint32_t>(value));
    }
    return counts;
}

}  // namespace headroom::data
