#include <headroom/examples/cli/summary.hpp>

#include <nlohmann/json.hpp>

#include <headroom/files/text_file.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::cli {

namespace {

/// What a budget was, what was asked of it, and what came of it.
void put_plan(nlohmann::ordered_json& json, const Summary& summary) {
    using Json = nlohmann::ordered_json;
    using training::Planned;
    const Planned* const planned = summary.report.planned ? &*summary.report.planned : nullptr;
    const plan::Plan* const plan = planned ? &planned->plan : nullptr;
    const auto put = [&](const char* name, const auto* of, auto field) { json[name] = of ? Json(of->*field) : Json(); };
    json["budget_bytes"] = summary.budget > 0 ? Json(summary.budget) : Json();
    json["fits"] = planned || summary.refused ? Json(planned != nullptr) : Json();
    put("floor_bytes", planned, &Planned::floor_bytes);
    put("keep_all_bytes", planned, &Planned::keep_all_bytes);
    if (summary.refused) {
        json["floor_bytes"] = summary.refused->least();
        json["keep_all_bytes"] = summary.refused->keep_all();
    }
    put("planner_seconds", planned, &Planned::seconds);
    put("plans_simulated", planned, &Planned::simulated);
    put("plans_rehearsed", planned, &Planned::rehearsed);
    json["choice"] = plan && !plan->division.choice.empty() ? Json(plan->division.choice) : Json();
    json["program_sha256"] = plan ? Json(plan::program_sha256(plan->program)) : Json();
}

/// Null where nothing was trained.
void put_trained(nlohmann::ordered_json& json, bool trained, const std::string& name, const auto& figure) {
    json[name] = nullptr;
    if (trained) json[name] = figure;
}

/// One of several processes.
nlohmann::ordered_json rank_of(std::size_t number, const training::RankReport& rank, bool trained) {
    nlohmann::ordered_json json{{"rank", number}};
    const auto put = [&](const char* name, auto figure) { put_trained(json, trained, name, figure); };
    put("peak_bytes_allocated", rank.peak_bytes_allocated);
    put("peak_bytes_reserved", rank.peak_bytes_reserved);
    json["peak_bytes_predicted"] = rank.predicted_bytes_allocated;
    json["peak_bytes_reserved_predicted"] = rank.predicted_bytes_reserved;
    json["parameter_bytes"] = rank.parameter_bytes;
    json["optimizer_state_bytes"] = rank.optimizer_state_bytes;
    put("sent_bytes", rank.sent_bytes);
    put("collectives", rank.exchanges);
    put("seconds_waited", rank.seconds_waited);
    return json;
}

}  // namespace

void write_summary(const std::filesystem::path& path, const Summary& summary) {
    const training::Report& report = summary.report;
    const bool trained = !report.state_sha256.empty();
    nlohmann::ordered_json json;
    const auto put = [&](const std::string& name, const auto& figure) {
        json[name] = nullptr;
        if (figure) json[name] = *figure;
    };
    const auto put_trained = [&](const std::string& name, const auto& figure) {
        cli::put_trained(json, trained, name, figure);
    };
    json["val_loss"] = nullptr;
    if (report.validation) {
        json["val_loss"] = report.validation->loss;
        for (const training::Metric& metric : report.validation->metrics) json[metric.key] = metric.value;
        if (const std::string& note = report.validation->note; !note.empty()) json["val_note"] = without_controls(note);
    }
    put("train_loss", report.train_loss);
    put_trained(summary.rate_name, report.rate);
    put("loading_share", report.loading_share);
    json["seconds"] = summary.seconds;
    put_trained("peak_bytes_allocated", report.peak_bytes_allocated);
    put_trained("peak_bytes_reserved", report.peak_bytes_reserved);
    put("used", report.used);
    json["peak_bytes_predicted"] = report.forecast.peak.allocated;
    json["peak_bytes_reserved_predicted"] = report.forecast.peak.reserved;
    json["resident_bytes"] = report.forecast.resident_bytes();
    json["parameters"] = report.forecast.parameters;
    json["steps"] = report.steps;
    put_trained("state_sha256", report.state_sha256);
    json["batch"] = summary.batch;
    json["accumulate"] = summary.accumulate;
    put("step_seconds", report.step_seconds);
    put("step_seconds_predicted",
        report.planned ? std::optional(report.planned->plan.step_seconds) : report.forecast.step_seconds);
    put("replayed_ops_predicted", report.forecast.replayed_ops);
    json["costs"] = summary.measured_costs ? "measured" : "assumed";
    put_trained("replayed_ops", report.last_step.replayed_ops);
    put_plan(json, summary);
    const ComputeOptions usual;
    const auto put_unusual = [&](const char* name, auto option) {
        if (report.compute.*option != usual.*option) json[name] = report.compute.*option;
    };
    put_unusual("tf32", &ComputeOptions::tf32);
    put_unusual("tune", &ComputeOptions::tune);
    put_unusual("deterministic", &ComputeOptions::deterministic);
    put_unusual("scratch_budget", &ComputeOptions::scratch_budget);
    put_unusual("graphs", &ComputeOptions::graphs);
    for (std::size_t i = 0; i < report.ranks.size(); ++i) json["ranks"].push_back(rank_of(i, report.ranks[i], trained));
    if (!report.graph_refusal.empty()) json["graph_refusal"] = report.graph_refusal;
    if (summary.skipped_images) json["skipped_images"] = *summary.skipped_images;
    // The name of a class may be no UTF-8.
    files::write_text(path, "the summary", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

}  // namespace headroom::cli
