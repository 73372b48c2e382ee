#include <headroom/training/internal/step_log.hpp>

#include <filesystem>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::training {

namespace {

constexpr const char* kValidation = "validation/";
constexpr const char* kValidationLoss = "validation/loss";

/// Cuts off the lines of later steps, one that was not written to its end, and, where it comes `again`, the validation
/// behind that step.
void cut_after(const std::string& path, std::int64_t step, bool again) {
    if (!std::filesystem::is_regular_file(path)) return;
    std::ifstream file(path);
    std::uintmax_t kept = 0;
    for (std::string line; std::getline(file, line) && !file.eof(); kept += line.size() + 1) {
        const nlohmann::json figures = nlohmann::json::parse(line, nullptr, false);
        const bool whole = figures.is_object() && figures.contains("step") && figures["step"].is_number_integer();
        if (!whole || figures["step"].get<std::int64_t>() > step) break;
        if (again && figures["step"] == step && figures.contains(kValidationLoss)) break;
    }
    std::filesystem::resize_file(path, kept);
}

}  // namespace

StepLog::StepLog(const TrainerOptions& options, std::int64_t done, bool ended) : path_(options.log) {
    if (!path_.empty()) {
        if (!options.resume.empty()) cut_after(path_, done, ended);
        lines_.open(path_, options.resume.empty() ? std::ios::trunc : std::ios::app);
    }
    const bool again = ended && !options.resume.empty() && has_event(options.tensorboard, done, kValidationLoss);
    if (!options.tensorboard.empty() && !again) events_.emplace(options.tensorboard, done + 1);
    flush();
}

void StepLog::add(std::int64_t step, const std::string& part, const nlohmann::ordered_json& figures) {
    if (lines_.is_open()) {
        nlohmann::ordered_json line{{"step", step}};
        for (const auto& [name, figure] : figures.items()) line[part + name] = figure;
        lines_ << line.dump() << '\n';
    }
    if (!events_) return;
    for (const auto& [name, figure] : figures.items()) events_->add(step, part + name, figure.get<double>());
}

void StepLog::step(std::int64_t step, const optim::StepResult& result, double learning_rate) {
    nlohmann::ordered_json figures{
        {"loss", result.loss}, {"gradient_norm", result.gradient_norm}, {"learning_rate", learning_rate}};
    for (const optim::StepFigure& figure : result.figures) figures[figure.name] = figure.value;
    add(step, "train/", figures);
}

void StepLog::validation(std::int64_t step, const Validation& validation) {
    nlohmann::ordered_json figures{{"loss", validation.loss}};
    for (const Metric& metric : validation.metrics) figures[metric.name] = metric.value;
    add(step, kValidation, figures);
}

void StepLog::flush() {
    lines_.flush();
    if (!path_.empty() && !lines_)
        throw FileError(fmt::format("{}: the log can't be written; check the folder and the space", path_));
    if (events_) events_->flush();
}

}  // namespace headroom::training
