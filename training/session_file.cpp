// A training in a file: what its parts are, and what the program was told, as one JSON object.
#include <set>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/core/state_counter.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/files/state_hash.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/internal/description.hpp>
#include <headroom/training/session.hpp>

namespace headroom::training {

namespace {

using Json = nlohmann::json;

constexpr const char* kSteps = "steps";
constexpr const char* kPlan = "plan";
constexpr const char* kBest = "best_validation_loss";
constexpr const char* kSinceBest = "validations_since_best";

/// Null where there is none.
Json field(const Json& json, const std::string& name) { return json.is_object() ? json.value(name, Json()) : Json(); }

/// Names the first field that differs between what was saved and what is asked for; one that only one of them has, such
/// as a size of another kind of model, comes behind those that both have.
void expect_same(const std::string& section, const Json& saved, const Json& asked) {
    std::set<std::string> names;
    for (const Json* json : {&saved, &asked}) {
        if (!json->is_object()) continue;
        for (const auto& [name, value] : json->items()) names.insert(name);
    }
    const auto text = [](const Json& value) { return value.is_null() ? "none" : value.dump(); };
    for (const bool both : {true, false}) {
        for (const std::string& name : names) {
            const Json before = field(saved, name), now = field(asked, name);
            if (before == now || both != (!before.is_null() && !now.is_null())) continue;
            if (before.is_object() || now.is_object()) expect_same(name, before, now);
            if (before.is_structured() || now.is_structured())
                throw Error(fmt::format("its {0} differs from the {0} given now; use the same data", section));
            throw Error(fmt::format("it was trained with {} {}, not {}; resume it with the same", name, text(before),
                                    text(now)));
        }
    }
}

/// Says which option an error is about.
template <class Read>
auto resumed(const TrainerOptions& options, const Read& read) {
    try {
        return read();
    } catch (const Error& error) {
        throw Error(fmt::format("{} {}", options.spell("resume", ""), error.what()));
    }
}

}  // namespace

Json description_of(const Task& task) {
    Json json = Json::parse(task.describe(), nullptr, false);
    if (!json.is_object()) throw Error("Task::describe must return a JSON object");
    return json;
}

/// What the file has to agree with, and the step it was saved at: a part of the checkpoint like the others, so that a
/// file that does not fit changes nothing.
class Session::Description {
  public:
    explicit Description(Session& session) : session_(session) {}

    StateDict state_dict() const {
        const TrainerOptions& options = session_.options_;
        StateValues values = options.values ? options.values() : StateValues();
        values[options.name] = describe().dump();
        values[kSteps] = fmt::to_string(session_.steps_done_);
        if (session_.best_) values[kBest] = fmt::to_string(*session_.best_);
        if (session_.since_best_ > 0) values[kSinceBest] = fmt::to_string(session_.since_best_);
        if (options.plan) values[kPlan] = plan::plan_text(*options.plan);
        return {{}, values};
    }
    void restore(const StateValues& values) {
        const std::string& name = session_.options_.name;
        const auto text = state_value<std::string>(values, name);
        const auto steps = state_counter(values, kSteps);
        const auto best = values.contains(kBest) ? std::optional(state_value<double>(values, kBest)) : std::nullopt;
        const std::int64_t since_best = values.contains(kSinceBest) ? state_counter(values, kSinceBest) : 0;
        const Json saved = Json::parse(text, nullptr, false);
        if (!saved.is_object()) throw FileError(fmt::format("the part that {} wrote is damaged", name));
        expect_same(name, saved, describe());
        expect_samples(values);
        session_.steps_done_ = steps;
        session_.best_ = best;
        session_.since_best_ = since_best;
    }

  private:
    /// Says which option goes on all the same; the loader would refuse it, too.
    void expect_samples(const StateValues& values) const {
        const char* const name = "loader.samples";
        const StateValues here = session_.task_->order().state_dict().values;
        if (session_.options_.changed_data || !values.contains(name) || !here.contains(name)) return;
        if (const std::string& saved = values.at(name), &found = here.at(name); saved != found)
            throw Error(fmt::format("it was trained on {} samples, but there are {} now; {} continues with these",
                                    saved, found, session_.options_.spell("changed_data", "")));
    }

    Json describe() const {
        const TrainerOptions& options = session_.options_;
        Json json = description_of(*session_.task_);
        json["training"] = {{"seed", session_.seed_},
                            {"accumulate", options.accumulate},
                            {"dtype", options.autocast ? name(*options.autocast) : "f32"}};
        if (options.average > 0) json["training"]["average"] = options.average;
        return json;
    }

    Session& session_;
};

files::CheckpointParts Session::parts(Description& description) {
    files::CheckpointParts parts{description, parameters_, *optimizer_, *accumulator_, task_->order()};
    if (average_) parts.emplace_back(*average_);
    return parts;
}

void Session::save(const std::string& path) {
    if (group_ && group_->rank() > 0 && parameters_.shards() == 1) return;
    Description description(*this);
    files::save_checkpoint(path, context_, parts(description));
}

void Session::copy(std::vector<char>& file) {
    Description description(*this);
    files::copy_checkpoint(file, context_, parts(description));
}

void Session::resume(const std::string& path) {
    Description description(*this);
    resumed(options_, [&] { files::load_checkpoint(path, context_, parts(description)); });
}

std::optional<plan::Plan> saved_plan(const TrainerOptions& options) {
    if (options.resume.empty()) return std::nullopt;
    return resumed(options, [&]() -> std::optional<plan::Plan> {
        const StateValues values = files::SafetensorsFile(options.resume).metadata();
        const auto text = values.find(kPlan);
        if (text == values.end()) return std::nullopt;
        return plan::parse_plan(text->second, options.resume);
    });
}

std::string Session::state_sha256() {
    files::CheckpointParts parts{parameters_, *optimizer_};
    if (average_) parts.emplace_back(*average_);
    return files::state_sha256(context_, parts);
}

}  // namespace headroom::training
