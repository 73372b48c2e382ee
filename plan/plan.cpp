#include <headroom/plan/plan.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/files/internal/sha256.hpp>
#include <headroom/files/text_file.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/plan/internal/form.hpp>
#include <headroom/plan/internal/json_file.hpp>
#include <headroom/plan/policy_of.hpp>

namespace headroom::plan {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kPlanVersion = 2;

std::string in_words(const ProgramOp& op) { return op.path.empty() ? op.op : fmt::format("{} in {}", op.op, op.path); }

/// Errors: Error unless it is a number that such a count can be; nlohmann's if there is none.
template <class T, class Key>
T count(const Json& json, const Key& key) {
    const Json& value = json.at(key);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<T>::max()})
        throw Error(fmt::format("{} must be a count, got {}", Json(key).dump(), value.dump()));
    return value.get<T>();
}

Json json_of(const Rule& rule) {
    Json json{{"path", rule.path}, {"op", rule.op}};
    if (rule.call) json["call"] = *rule.call;
    if (rule.ordinal) json["ordinal"] = *rule.ordinal;
    json["answer"] = rule.answer.choice == Answer::recompute ? "recompute"
                     : rule.answer.choice == Answer::keep    ? "keep"
                                                             : "inherit";
    if (rule.answer.drop_distance) json["drop_distance"] = rule.answer.drop_distance;
    return json;
}

Rule rule_of(const Json& json) {
    Rule rule{.path = json.at("path"), .op = json.at("op")};
    if (json.contains("call")) rule.call = count<std::uint32_t>(json, "call");
    if (json.contains("ordinal")) rule.ordinal = count<std::uint32_t>(json, "ordinal");
    const std::string answer = json.at("answer");
    if (answer != "recompute" && answer != "keep" && answer != "inherit")
        throw Error("unknown answer \"" + answer + "\"");
    rule.answer = {answer == "recompute" ? Answer::recompute
                   : answer == "keep"    ? Answer::keep
                                         : Answer::inherit,
                   json.contains("drop_distance") ? count<std::uint32_t>(json, "drop_distance") : 0};
    return rule;
}

}  // namespace

std::string Plan::to_string() const {
    std::string text =
        fmt::format("{} micro-batch{} of {} sample{}", division.accumulate, division.accumulate == 1 ? "" : "es",
                    division.batch, division.batch == 1 ? "" : "s");
    if (whole_batch > division.batch) text += fmt::format(", split from {}: draws differ", whole_batch);
    if (!division.choice.empty()) text += ", " + division.choice;
    text += fmt::format(", {} op{} run again in a step, {} bytes reserved", replayed_ops, replayed_ops == 1 ? "" : "s",
                        peak_bytes_reserved);
    if (gain > 0) text += fmt::format(", {:.1f}% faster than keeping all", 100 * gain);
    if (kinds > 1) text += fmt::format(", for the last of {} kinds of micro-batch", kinds);
    return text;
}

std::vector<ProgramOp> ops_of(const RecordedProgram& program) {
    std::vector<ProgramOp> result;
    std::vector<std::size_t> number(program.ops.size());  // of the op in `result`
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
        const RecordedOp& op = program.ops[i];
        if (op.is_cast) continue;
        number[i] = result.size();
        files::Sha256 hash;
        hash.add(op.name + "\n");
        for (const RecordedInput& input : op.inputs) {
            if (input.value == RecordedValue::kNone) {
                hash.add("none\n");
                continue;
            }
            const RecordedValue* value = &program.values[input.value];
            hash.add(form_of(value->dtype, input.geometry));
            std::uint32_t at = input.value;
            while (value->producer != RecordedValue::kNone && program.ops[value->producer].is_cast) {
                at = program.ops[value->producer].inputs.front().value;
                value = &program.values[at];
            }
            if (value->producer == RecordedValue::kNone) {
                hash.add(" from outside\n");
            } else {
                const auto& outputs = program.ops[value->producer].outputs;
                hash.add(fmt::format(" from {} {}\n", number[value->producer],
                                     std::find(outputs.begin(), outputs.end(), at) - outputs.begin()));
            }
        }
        for (const std::uint32_t output : op.outputs) {
            hash.add(form_of(program.values[output].dtype, program.values[output].geometry) + "\n");
        }
        result.push_back({op.path, op.name, op.call, op.ordinal, hash.hex().substr(0, 16)});
    }
    return result;
}

std::string program_sha256(const std::vector<ProgramOp>& ops) {
    files::Sha256 hash;
    for (const ProgramOp& op : ops) {
        hash.add(fmt::format("{}\n{} {} {} {}\n", op.path, op.op, op.call, op.ordinal, op.digest));
    }
    return hash.hex();
}

std::string difference(const std::vector<ProgramOp>& program, const std::vector<ProgramOp>& here) {
    const auto [own, other] = std::mismatch(program.begin(), program.end(), here.begin(), here.end());
    if (own == program.end() && other == here.end()) return "";
    const std::string there = own == program.end() ? "nothing" : in_words(*own);
    const std::string found = other == here.end() ? "nothing" : in_words(*other);
    return fmt::format("its op {} is {}, but here it is {}{}", own - program.begin(), there, found,
                       found == there ? " with other shapes, dtypes or inputs" : "");
}

void check_program(const Plan& plan, const RecordedProgram& program) {
    const std::string differs = difference(plan.program, ops_of(program));
    if (!differs.empty()) throw Error("the plan is for another program: " + differs);
    for (const Rule& rule : plan.policy ? plan.policy->rules() : std::vector<Rule>{}) {
        if (std::none_of(program.ops.begin(), program.ops.end(), [&](auto& op) { return names(rule, op); })) {
            throw Error("the plan has a rule for an op that is not in the program: " + rule.to_string());
        }
    }
}

std::string plan_text(const Plan& plan) {
    const Json head{{"headroom_plan", kPlanVersion},
                    {"program_sha256", program_sha256(plan.program)},
                    {"batch", plan.division.batch},
                    {"accumulate", plan.division.accumulate},
                    {"choice", plan.division.choice},
                    {"peak_bytes_allocated", plan.peak_bytes_allocated},
                    {"peak_bytes_reserved", plan.peak_bytes_reserved},
                    {"step_seconds", plan.step_seconds},
                    {"measured", plan.measured},
                    {"replayed_ops", plan.replayed_ops},
                    {"whole_batch", plan.whole_batch},
                    {"gain", plan.gain},
                    {"kinds", plan.kinds},
                    {"budget", plan.budget}};
    std::vector<Json> rules, program;
    if (plan.policy) {
        for (const Rule& rule : plan.policy->rules()) rules.push_back(json_of(rule));
    }
    for (const ProgramOp& op : plan.program) program.push_back({op.path, op.op, op.call, op.ordinal, op.digest});
    return json_text(head, {{"rules", rules}, {"program", program}});
}

Plan parse_plan(const std::string& text, const std::string& source) {
    try {
        const Json json = Json::parse(text);
        if (json.at("headroom_plan") != kPlanVersion) throw Error("the version is not supported");
        Plan plan{.division = {count<std::int64_t>(json, "batch"), count<std::int64_t>(json, "accumulate"),
                               json.at("choice")},
                  .peak_bytes_allocated = count<std::size_t>(json, "peak_bytes_allocated"),
                  .peak_bytes_reserved = count<std::size_t>(json, "peak_bytes_reserved"),
                  .step_seconds = json.at("step_seconds"),
                  .measured = json.at("measured"),
                  .replayed_ops = count<std::uint64_t>(json, "replayed_ops")};
        if (json.contains("whole_batch")) {  // an older plan is silent
            plan.whole_batch = count<std::int64_t>(json, "whole_batch");
            plan.gain = json.at("gain");
            plan.kinds = count<std::int64_t>(json, "kinds");
        }
        if (json.contains("budget")) plan.budget = count<std::size_t>(json, "budget");
        if (!(plan.step_seconds >= 0)) throw Error("step_seconds must be at least 0");
        if (!(plan.gain >= 0 && plan.gain <= 1)) throw Error("gain must be between 0 and 1");
        if (plan.division.batch < 1 || plan.division.accumulate < 1)
            throw Error("batch and accumulate must be at least 1");
        std::vector<Rule> rules;
        for (const Json& rule : json.at("rules")) rules.push_back(rule_of(rule));
        if (!rules.empty()) plan.policy = Policy(std::move(rules));
        for (const Json& op : json.at("program")) {
            plan.program.push_back(
                {op.at(0), op.at(1), count<std::uint32_t>(op, 2), count<std::uint32_t>(op, 3), op.at(4)});
        }
        if (json.at("program_sha256") != program_sha256(plan.program))
            throw Error("its program_sha256 does not match its program");
        return plan;
    } catch (const std::exception& error) {  // nlohmann's, or one from here
        throw FileError(fmt::format("{}: not a valid plan: {}", source, error.what()));
    }
}

void write_plan(const std::filesystem::path& path, const Plan& plan) {
    files::write_text(path, "the plan", plan_text(plan));
}

Plan read_plan(const std::filesystem::path& path) {
    std::ifstream file(path);
    if (!file) throw FileError(fmt::format("{}: can't read a plan from this file", path.string()));
    return parse_plan({std::istreambuf_iterator<char>(file), {}}, path.string());
}

}  // namespace headroom::plan
