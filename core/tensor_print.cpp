// Tensors as text: the rules of PyTorch's `print` for digits, widths, line breaks and the middle that is left out.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <headroom/core/tensor.hpp>

namespace headroom {

namespace {

constexpr std::int64_t kShownWhole = 1000;  ///< elements; of more, the first and last kEdge along each axis are shown
constexpr std::int64_t kEdge = 3;
constexpr std::size_t kLineWidth = 80;

/// How all numbers of a tensor are written: whole ones with a point, others with four digits behind it, or with an
/// exponent where a column of such numbers would be wide or would lose digits.
std::vector<std::string> written(const std::vector<double>& values) {
    double largest = 0, smallest = HUGE_VAL;
    bool whole = true;
    for (const double value : values) {
        if (!std::isfinite(value) || value == 0) continue;
        largest = std::max(largest, std::abs(value));
        smallest = std::min(smallest, std::abs(value));
        whole &= std::trunc(value) == value;
    }
    const bool exponent = largest / smallest > 1000 || largest > 1e8 || (!whole && smallest < 1e-4);
    std::vector<std::string> all;
    for (const double value : values) {
        if (!std::isfinite(value)) {
            all.push_back(fmt::format("{}", std::isnan(value) ? std::abs(value) : value));
        } else {
            all.push_back(exponent ? fmt::format("{:.4e}", value)
                          : whole  ? fmt::format("{:.0f}.", value)
                                   : fmt::format("{:.4f}", value));
        }
    }
    return all;
}

std::vector<std::string> written(const Tensor& x) {
    if (is_floating(x.dtype())) return written(x.to_vector<double>());
    std::vector<std::string> all;
    for (const std::int64_t value : x.to_vector<std::int64_t>()) {
        const bool boolean = x.dtype() == Dtype::boolean;
        all.push_back(boolean ? (value ? "true" : "false") : fmt::to_string(value));
    }
    return all;
}

/// Numbers of one width between brackets, an axis in each.
class Page {
  public:
    Page(const std::vector<std::string>& numbers, const Shape& shape)
        : numbers_(numbers), shape_(shape), summary_(shape.numel() > kShownWhole) {
        for (const std::string& number : numbers) width_ = std::max(width_, number.size());
    }

    std::string text() {
        write(0, 0);
        return std::move(text_);
    }

  private:
    /// The axes from `axis` on, of which the first number is `first`.
    void write(int axis, std::size_t first) {
        if (axis == shape_.rank()) {
            text_ += fmt::format("{:>{}}", numbers_[first], width_);
            return;
        }
        const std::size_t indent = static_cast<std::size_t>(axis) + 1;
        const std::size_t on_a_line = std::max<std::size_t>(1, (kLineWidth - indent) / (width_ + 2));
        std::size_t step = 1;
        for (int i = axis + 1; i < shape_.rank(); ++i) step *= static_cast<std::size_t>(shape_[i]);
        const bool innermost = axis + 1 == shape_.rank();
        std::size_t written = 0;
        text_ += '[';
        for (std::int64_t i = 0; i < shape_[axis]; ++i) {
            const bool gap = summary_ && shape_[axis] > 2 * kEdge && i == kEdge;
            if (i > 0) text_ += ',' + (innermost && written % on_a_line != 0 ? " " : line_break(axis));
            if (gap) {
                text_ += "...";
                i = shape_[axis] - kEdge - 1;
            } else {
                write(axis + 1, first + static_cast<std::size_t>(i) * step);
            }
            ++written;
        }
        text_ += ']';
    }

    /// Blocks of rows are apart by as many lines as they have axes.
    std::string line_break(int axis) const {
        const auto lines = static_cast<std::size_t>(std::max(1, shape_.rank() - axis - 1));
        return std::string(lines, '\n') + std::string(static_cast<std::size_t>(axis) + 1, ' ');
    }

    const std::vector<std::string>& numbers_;
    const Shape shape_;
    const bool summary_;
    std::size_t width_ = 0;
    std::string text_;
};

}  // namespace

std::string Tensor::to_string() const {
    if (!defined()) return "undefined tensor";
    return fmt::format("{} {}{}{}", name(dtype()), shape().to_string(), rank() > 1 ? "\n" : " ",
                       Page(written(*this), shape()).text());
}

}  // namespace headroom
