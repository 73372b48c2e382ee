// Each figure of a report is in the summary under its own name: all of them differ, so that none can stand for another.
#include <headroom/examples/cli/summary.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <headroom/tests/data/scratch.hpp>

namespace headroom::cli {
namespace summary_test {

using Json = nlohmann::json;

Json written(const Summary& summary) {
    const test::ScratchFolder folder;
    write_summary(folder.path() / "run.json", summary);
    std::ifstream file(folder.path() / "run.json");
    return Json::parse(file);
}

training::Forecast forecast() {
    training::Forecast forecast;
    forecast.peak.allocated = 101;
    forecast.peak.reserved = 102;
    forecast.parameter_bytes = 1000;
    forecast.optimizer_state_bytes = 200;
    forecast.parameters = 103;
    forecast.steps = 104;
    forecast.step_seconds = 105.5;
    forecast.replayed_ops = 106;
    return forecast;
}

Summary trained() {
    Summary summary;
    training::Report& report = summary.report;
    report.forecast = forecast();
    report.steps = 1;
    report.complete = true;
    report.train_loss = 2.5;
    report.validation =
        training::Validation{.loss = 3.5, .metrics = {{"accuracy", "val_accuracy", 4.5}}, .note = "few classes"};
    report.rate = 5.5;
    report.step_seconds = 6.5;
    report.last_step = {.replayed_ops = 7, .launches = 8, .host_waits = 9, .sent_bytes = 10, .exchanges = 11};
    report.loading_share = 12.5;
    report.peak_bytes_allocated = 13;
    report.peak_bytes_reserved = 14;
    report.used = 15;
    report.graph_refusal = "a reason";
    report.state_sha256 = "abc";
    for (std::size_t rank = 0; rank < 2; ++rank) {
        const std::size_t base = 20 + 20 * rank;
        report.ranks.push_back({.peak_bytes_allocated = base,
                                .peak_bytes_reserved = base + 1,
                                .predicted_bytes_allocated = base + 2,
                                .predicted_bytes_reserved = base + 3,
                                .parameter_bytes = base + 4,
                                .optimizer_state_bytes = base + 5,
                                .sent_bytes = base + 6,
                                .exchanges = base + 7,
                                .seconds_waited = static_cast<double>(base) + 8.5});
    }
    summary.rate_name = "tokens_per_second";
    summary.seconds = 60.5;
    summary.skipped_images = 61;
    summary.measured_costs = true;
    summary.batch = 62;
    summary.accumulate = 63;
    return summary;
}

const char* const kTrained = R"({
    "val_loss": 3.5, "val_accuracy": 4.5, "val_note": "few classes", "train_loss": 2.5, "tokens_per_second": 5.5,
    "loading_share": 12.5, "seconds": 60.5, "peak_bytes_allocated": 13, "peak_bytes_reserved": 14, "used": 15,
    "peak_bytes_predicted": 101, "peak_bytes_reserved_predicted": 102, "resident_bytes": 1200, "parameters": 103,
    "steps": 1, "state_sha256": "abc", "batch": 62, "accumulate": 63, "step_seconds": 6.5,
    "step_seconds_predicted": 105.5, "replayed_ops_predicted": 106, "costs": "measured", "replayed_ops": 7,
    "budget_bytes": null, "fits": null, "floor_bytes": null, "keep_all_bytes": null, "planner_seconds": null,
    "plans_simulated": null, "plans_rehearsed": null, "choice": null, "program_sha256": null,
    "ranks": [
        {"rank": 0, "peak_bytes_allocated": 20, "peak_bytes_reserved": 21, "peak_bytes_predicted": 22,
         "peak_bytes_reserved_predicted": 23, "parameter_bytes": 24, "optimizer_state_bytes": 25, "sent_bytes": 26,
         "collectives": 27, "seconds_waited": 28.5},
        {"rank": 1, "peak_bytes_allocated": 40, "peak_bytes_reserved": 41, "peak_bytes_predicted": 42,
         "peak_bytes_reserved_predicted": 43, "parameter_bytes": 44, "optimizer_state_bytes": 45, "sent_bytes": 46,
         "collectives": 47, "seconds_waited": 48.5}],
    "graph_refusal": "a reason", "skipped_images": 61})";

TEST(Summary, HasEachFigureUnderItsName) { EXPECT_EQ(written(trained()), Json::parse(kTrained)); }

TEST(Summary, OfAPlanHasWhatItWasFoundAmong) {
    Summary summary = trained();
    summary.budget = 70;
    summary.measured_costs = false;
    const plan::Plan plan{.division = {.batch = 62, .accumulate = 63, .choice = "half"},
                          .step_seconds = 71.5,
                          .program = {{.path = "net", .op = "relu", .digest = "0123456789abcdef"}}};
    summary.report.planned = training::Planned{.plan = plan,
                                               .floor_bytes = 72,
                                               .keep_all_bytes = 73,
                                               .simulated = 74,
                                               .rehearsed = 75,
                                               .seconds = 76.5,
                                               .explanation = "why"};
    Json expected = Json::parse(kTrained);
    expected.update({{"budget_bytes", 70},
                     {"fits", true},
                     {"floor_bytes", 72},
                     {"keep_all_bytes", 73},
                     {"plans_simulated", 74},
                     {"plans_rehearsed", 75},
                     {"planner_seconds", 76.5},
                     {"choice", "half"},
                     {"program_sha256", plan::program_sha256(plan.program)},
                     {"step_seconds_predicted", 71.5},
                     {"costs", "assumed"}});
    EXPECT_EQ(written(summary), expected);
}

/// A training that was refused or rehearsed alone: what was not measured is null, and is not 0.
TEST(Summary, WithoutATrainingHasNoFiguresOfOne) {
    Summary summary;
    summary.report.forecast = forecast();
    summary.report.ranks = {{.predicted_bytes_allocated = 22,
                             .predicted_bytes_reserved = 23,
                             .parameter_bytes = 24,
                             .optimizer_state_bytes = 25}};
    summary.budget = 70;
    summary.refused = plan::BudgetTooSmall(70, 72, 73);
    const Json json = written(summary);
    for (const char* name : {"val_loss", "train_loss", "tokens_per_second", "loading_share", "peak_bytes_allocated",
                             "peak_bytes_reserved", "used", "state_sha256", "step_seconds", "replayed_ops",
                             "planner_seconds", "plans_simulated", "plans_rehearsed", "choice", "program_sha256"}) {
        ASSERT_TRUE(json.contains(name)) << name;
        EXPECT_TRUE(json[name].is_null()) << name;
    }
    EXPECT_EQ(json["fits"], false);
    EXPECT_EQ(json["budget_bytes"], 70);
    EXPECT_EQ(json["floor_bytes"], 72);
    EXPECT_EQ(json["keep_all_bytes"], 73);
    EXPECT_EQ(json["ranks"][0]["sent_bytes"], nullptr);
    EXPECT_EQ(json["ranks"][0]["peak_bytes_predicted"], 22);
    EXPECT_EQ(json["ranks"][0]["parameter_bytes"], 24);
    for (const char* name : {"val_note", "graph_refusal", "skipped_images", "tf32", "graphs"})
        EXPECT_FALSE(json.contains(name)) << name;
}

TEST(Summary, NamesWhatIsComputedOtherwise) {
    const Json usual = written(trained());
    const auto with = [&](const char* name, const auto& change, const Json& value) {
        Summary summary = trained();
        change(summary.report.compute);
        Json expected = usual;
        expected[name] = value;
        EXPECT_EQ(written(summary), expected) << name;
    };
    with(
        "tf32", [](ComputeOptions& compute) { compute.tf32 = true; }, true);
    with(
        "tune", [](ComputeOptions& compute) { compute.tune = true; }, true);
    with(
        "deterministic", [](ComputeOptions& compute) { compute.deterministic = false; }, false);
    with(
        "scratch_budget", [](ComputeOptions& compute) { compute.scratch_budget = 5; }, 5);
    with(
        "graphs", [](ComputeOptions& compute) { compute.graphs = true; }, true);
}

}  // namespace summary_test
}  // namespace headroom::cli
