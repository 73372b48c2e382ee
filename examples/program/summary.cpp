#include <headroom/examples/program/summary.hpp>

#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/memory/error.hpp>

namespace headroom::program {

void take_peaks(Summary& summary, Context& context) {
    const MemoryStatistics statistics = context.memory().statistics();
    summary.peak_bytes_allocated = statistics.peak_allocated;
    summary.peak_bytes_reserved = statistics.peak_reserved;
}

void write_summary(const std::filesystem::path& path, const Summary& summary) {
    nlohmann::ordered_json json;
    const auto put = [&](const std::string& name, const auto& figure) {
        json[name] = nullptr;
        if (figure) json[name] = *figure;
    };
    json["val_loss"] = nullptr;
    if (summary.validation) {
        json["val_loss"] = summary.validation->loss;
        for (const Metric& metric : summary.validation->metrics()) json[metric.key] = metric.value;
        if (const std::string& note = summary.validation->note; !note.empty())
            json["val_note"] = without_controls(note);
    }
    put("train_loss", summary.train_loss);
    put(summary.rate_name, summary.rate);
    put("loading_share", summary.loading_share);
    json["seconds"] = summary.seconds;
    put("peak_bytes_allocated", summary.peak_bytes_allocated);
    put("peak_bytes_reserved", summary.peak_bytes_reserved);
    json["peak_bytes_predicted"] = summary.forecast.peak.allocated;
    json["peak_bytes_reserved_predicted"] = summary.forecast.peak.reserved;
    json["resident_bytes"] = summary.forecast.resident_bytes;
    json["parameters"] = summary.forecast.parameters;
    json["steps"] = summary.steps;
    put("state_sha256", summary.state_sha256);
    const ComputeOptions usual;
    const auto put_unusual = [&](const char* name, auto option) {
        if (summary.compute.*option != usual.*option) json[name] = summary.compute.*option;
    };
    put_unusual("tf32", &ComputeOptions::tf32);
    put_unusual("tune", &ComputeOptions::tune);
    put_unusual("deterministic", &ComputeOptions::deterministic);
    put_unusual("scratch_budget", &ComputeOptions::scratch_budget);
    put_unusual("graphs", &ComputeOptions::graphs);
    if (!summary.graph_refusal.empty()) json["graph_refusal"] = summary.graph_refusal;
    if (summary.skipped_images) json["skipped_images"] = *summary.skipped_images;
    std::ofstream file(path);
    // The name of a class may be no UTF-8.
    file << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    file.close();
    if (!file)
        throw FileError(fmt::format("{}: the summary can't be written; check the folder and the space", path.string()));
}

void Throughput::look(std::int64_t steps, double units, Moment now) {
    const double seconds = std::chrono::duration<double>(now - std::exchange(last_, now)).count();
    const double done = static_cast<double>(steps) * units;
    if (warming_up()) {
        warm_up_ -= steps;
        warm_up_seconds_ += seconds;
        recent_ = done / seconds;
        return;
    }
    units_ += done;
    seconds_ += seconds;
}

}  // namespace headroom::program
