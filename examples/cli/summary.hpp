#pragma once
// The one JSON object that a training program leaves behind.
//
//     Summary summary;
//     summary.report = trainer.run(context);
//     write_summary("run.json", summary);
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include <headroom/core/context.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::cli {

struct Summary {
    training::Report report;  ///< of a training, or with the forecast alone
    std::string rate_name = "tokens_per_second";
    double seconds = 0;
    std::optional<std::size_t> skipped_images;
    bool measured_costs = false;                  ///< that times are predicted by
    std::size_t budget = 0;                       ///< bytes; 0: none
    std::optional<plan::BudgetTooSmall> refused;  ///< why nothing was trained
    std::int64_t batch = 0, accumulate = 0;       ///< of the training, as the plan has them if there is one
};

/// Absent figures are null (an interrupted training has no val_loss). Left out are metrics that the program does not
/// have, a val_note, a graph_refusal and skipped_images that there were not, and options of computing that are as
/// usual. Errors: FileError if it can't be written.
void write_summary(const std::filesystem::path& path, const Summary& summary);

}  // namespace headroom::cli
