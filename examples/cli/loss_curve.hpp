#pragma once
// The losses of a training as a drawing that a browser shows.
//
//     LossCurve curve{.training = {{1, 4.2}, {2, 3.9}}, .validation = {{2, 4.0}}};
//     write_loss_curve("loss.svg", curve);
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

namespace headroom::cli {

/// Steps and their losses, finite ones.
struct LossCurve {
    std::vector<std::pair<std::int64_t, double>> training;
    std::vector<std::pair<std::int64_t, double>> validation;
};

/// As SVG: at most 500 points of the training, each the mean of neighbouring steps, and all of the validations; the
/// loss is on a logarithmic axis where all are above 0. Errors: FileError if it can't be written.
void write_loss_curve(const std::filesystem::path& path, const LossCurve& curve);

}  // namespace headroom::cli
