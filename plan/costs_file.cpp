// Costs as JSON.
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/files/text_file.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/plan/costs.hpp>
#include <headroom/plan/internal/json_file.hpp>

namespace headroom::plan {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kCostsVersion = 1;

/// "Intel(R) Xeon(R) Platinum, 2 threads".
std::string in_words(const std::string& name, int threads) {
    return threads == 0 ? name : fmt::format("{}, {} thread{}", name, threads, threads == 1 ? "" : "s");
}

/// Not negative, and finite.
double seconds_in(const Json& json) {
    const double seconds = json.get<double>();
    if (seconds < 0) throw Error("a time must be at least 0");
    return seconds;
}

}  // namespace

void write_costs(const std::filesystem::path& path, const Costs& costs, const Machine& machine) {
    const Json head{{"headroom_costs", kCostsVersion},
                    {"machine", machine.name},
                    {"threads", machine.threads},
                    {"build", machine.build},
                    {"outside_seconds_per_parameter_byte", costs.outside_per_byte_},
                    {"outside_seconds_per_op", costs.outside_per_op_},
                    {"spread", costs.spread_}};
    std::vector<Json> ops;
    for (const auto& [name, kinds] : costs.kinds_) {
        for (const auto& [form, kind] : kinds) {
            ops.push_back({{"op", name},
                           {"form", form},
                           {"forward_seconds", kind.seconds.forward},
                           {"replay_seconds", kind.seconds.replay},
                           {"backward_seconds", kind.seconds.backward},
                           {"backward_after_replay_seconds", kind.seconds.backward_after_replay},
                           {"forward_operations", kind.work.operations.forward},
                           {"backward_operations", kind.work.operations.backward},
                           {"bytes", kind.work.bytes},
                           {"half", kind.work.half}});
        }
    }
    files::write_text(path, "costs", json_text(head, {{"ops", ops}}));
}

Costs read_costs(const std::filesystem::path& path, const Profile& profile) {
    std::ifstream file(path);
    if (!file) throw FileError(fmt::format("{}: can't read costs from this file", path.string()));
    Costs costs = Costs::assumed(profile);
    std::string name, build;
    int threads = 0;
    try {
        const Json json = Json::parse(file);
        if (json.at("headroom_costs") != kCostsVersion) throw Error("the version is not supported");
        json.at("machine").get_to(name);
        json.at("threads").get_to(threads);
        json.at("build").get_to(build);
        costs.outside_per_byte_ = seconds_in(json.at("outside_seconds_per_parameter_byte"));
        costs.outside_per_op_ = seconds_in(json.at("outside_seconds_per_op"));
        if (json.contains("spread")) costs.spread_ = seconds_in(json.at("spread"));  // not in older files
        for (const Json& op : json.at("ops")) {
            costs.kinds_[op.at("op")][op.at("form")] = {
                .work = {.operations = {op.at("forward_operations"), op.at("backward_operations")},
                         .bytes = op.at("bytes"),
                         .half = op.at("half")},
                .seconds = {seconds_in(op.at("forward_seconds")), seconds_in(op.at("replay_seconds")),
                            seconds_in(op.at("backward_seconds")), seconds_in(op.at("backward_after_replay_seconds"))}};
        }
    } catch (const std::exception& error) {  // nlohmann's, or one from here
        throw FileError(fmt::format("{}: not a valid file of costs: {}", path.string(), error.what()));
    }
    const Machine here = Machine::of(profile);
    const bool any_gpu = threads == 0 && here.threads == 0 && profile.memory.simulated;
    if (!any_gpu && (name != here.name || threads != here.threads)) {
        throw FileError(fmt::format("{}: measured on {}, but this machine is {}: measure here", path.string(),
                                    in_words(name, threads), in_words(here.name, here.threads)));
    }
    if (build != here.build) {
        throw FileError(
            fmt::format("{}: measured by Headroom {}, but this is {}, whose ops take other times: measure again",
                        path.string(), build, here.build));
    }
    costs.fit();
    return costs;
}

}  // namespace headroom::plan
