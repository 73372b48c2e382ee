#include <headroom/examples/cli/loss_curve.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::cli {

namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr double kWidth = 640, kHeight = 360;
constexpr double kLeft = 70, kRight = 20, kTop = 30, kBottom = 40;
constexpr std::size_t kMost = 500;

/// Neighbours become their mean, so that `kMost` are left.
Points thinned(const std::vector<std::pair<std::int64_t, double>>& points) {
    const std::size_t each = (points.size() + kMost - 1) / kMost;
    Points means;
    for (std::size_t i = 0; i < points.size(); i += each) {
        const std::size_t end = std::min(i + each, points.size());
        double steps = 0, losses = 0;
        for (std::size_t j = i; j < end; ++j) {
            steps += static_cast<double>(points[j].first);
            losses += points[j].second;
        }
        const auto count = static_cast<double>(end - i);
        means.emplace_back(steps / count, losses / count);
    }
    return means;
}

/// A stretch of numbers, along a stretch of the drawing; by their logarithms, or as they are.
struct Axis {
    double least = std::numeric_limits<double>::infinity();
    double most = -std::numeric_limits<double>::infinity();
    double begin = 0, end = 0;
    bool logarithmic = false;

    void include(double value) {
        least = std::min(least, value);
        most = std::max(most, value);
    }
    double operator()(double value) const {
        const auto scale = [&](double number) { return logarithmic ? std::log(number) : number; };
        const double length = scale(most) - scale(least);
        return length > 0 ? begin + (end - begin) * (scale(value) - scale(least)) / length : (begin + end) / 2;
    }
    /// The value at a share of the way.
    double at(double share) const {
        return logarithmic ? least * std::pow(most / least, share) : least + (most - least) * share;
    }
};

std::string line_of(const Points& points, const Axis& x, const Axis& y, const char* color) {
    std::string places;
    for (const auto& [step, loss] : points) places += fmt::format("{:.1f},{:.1f} ", x(step), y(loss));
    return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"{}\"/>\n", color, places);
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, text);
}

}  // namespace

void write_loss_curve(const std::filesystem::path& path, const LossCurve& curve) {
    const Points training = thinned(curve.training);
    const Points validation(curve.validation.begin(), curve.validation.end());
    Axis x{.begin = kLeft, .end = kWidth - kRight}, y{.begin = kHeight - kBottom, .end = kTop};
    for (const Points* points : {&training, &validation}) {
        for (const auto& [step, loss] : *points) {
            x.include(step);
            y.include(loss);
        }
    }
    y.logarithmic = y.least > 0;
    std::ofstream file(path);
    file << fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
        kWidth, kHeight);
    if (!training.empty() || !validation.empty()) {
        for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
            const double height = y(y.at(share));
            file << fmt::format("<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n", kLeft,
                                kWidth - kRight, height);
            file << text_at(kLeft - 6, height + 4, "end", fmt::format("{:.3g}", y.at(share)));
        }
        for (const double share : {0.0, 0.5, 1.0})
            file << text_at(x(x.at(share)), kHeight - kBottom + 18, "middle", fmt::format("{:.0f}", x.at(share)));
        file << line_of(training, x, y, "#1f77b4") << line_of(validation, x, y, "#d62728");
        for (const auto& [step, loss] : validation)
            file << fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"#d62728\"/>\n", x(step), y(loss));
    }
    file << text_at((kLeft + kWidth - kRight) / 2, kHeight - 6, "middle", "step")
         << "<text x=\"76\" y=\"18\" fill=\"#1f77b4\">training loss</text>\n"
         << "<text x=\"170\" y=\"18\" fill=\"#d62728\">validation loss</text>\n</svg>\n";
    file.close();
    if (!file)
        throw FileError(fmt::format("{}: the losses can't be drawn; check the folder and the space", path.string()));
}

}  // namespace headroom::cli
