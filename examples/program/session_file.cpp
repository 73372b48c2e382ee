// A training in a file: what its parts are, and what the program was told, as one JSON object.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/core/state_counter.hpp>
#include <headroom/examples/program/session.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/checkpoint.hpp>
#include <headroom/nn/state_hash.hpp>

namespace headroom::program {

namespace {

using Json = nlohmann::json;

constexpr const char* kSteps = "steps";
constexpr const char* kBest = "best_validation_loss";

/// Names the first field of a section that differs between what was saved and what was asked for.
void expect_same(const std::string& section, const Json& saved, const Json& asked) {
    for (const auto& [name, value] : asked.items()) {
        if (saved.contains(name) && saved[name] == value) continue;
        if (value.is_structured())
            throw Error(fmt::format("it was trained with another {}; use the same data", section));
        throw Error(fmt::format("it was trained with {} {}, not {}, and goes on with nothing else", name,
                                saved.contains(name) ? saved[name].dump() : "unknown", value.dump()));
    }
}

}  // namespace

/// What the file has to agree with, and the step it was saved at: a part of the checkpoint like the others, so that a
/// file that does not fit changes nothing.
class Session::Description {
  public:
    explicit Description(Session& session) : session_(session) {}

    StateDict state_dict() const {
        const Flags& flags = session_.flags_;
        StateValues values{{flags.program, describe().dump()}, {kSteps, fmt::to_string(session_.steps_done_)}};
        if (flags.stored)
            values[StoredFlags::value_name(flags.program)] =
                flags.stored->text({{"scratch-budget", fmt::to_string(flags.compute.scratch_budget)}});
        if (session_.best_) values[kBest] = fmt::to_string(*session_.best_);
        return {{}, values};
    }
    void restore(const StateValues& values) {
        const std::string& program = session_.flags_.program;
        const auto text = state_value<std::string>(values, program);
        const auto steps = state_counter(values, kSteps);
        const auto best = values.contains(kBest) ? std::optional(state_value<double>(values, kBest)) : std::nullopt;
        const Json saved = Json::parse(text, nullptr, false);
        if (!saved.is_object()) throw FileError(fmt::format("what {} wrote into it is damaged", program));
        const Json asked = describe();
        for (const auto& [section, fields] : asked.items()) {
            expect_same(section, saved.value(section, Json::object()), fields);
        }
        expect_samples(values);
        session_.steps_done_ = steps;
        session_.best_ = best;
    }

  private:
    /// Says it in the words of the flags; the loader would refuse it, too.
    void expect_samples(const StateValues& values) const {
        const char* const name = "loader.samples";
        const StateValues here = session_.task_->order().state_dict().values;
        if (session_.flags_.changed_data || !values.contains(name) || !here.contains(name)) return;
        if (const std::string& saved = values.at(name), &found = here.at(name); saved != found)
            throw Error(fmt::format(
                "it was trained on {} samples, and there are {} now; --changed-data goes on with these", saved, found));
    }

    Json describe() const {
        const Flags& flags = session_.flags_;
        Json json = session_.task_->describe();
        json["training"] = {{"seed", flags.seed}, {"accumulate", flags.accumulate}, {"dtype", flags.dtype}};
        return json;
    }

    Session& session_;
};

nn::CheckpointParts Session::parts(Description& description) {
    return {description, parameters_, *optimizer_, *accumulator_, task_->order()};
}

void Session::save(const std::string& path) {
    Description description(*this);
    nn::save_checkpoint(path, context_, parts(description));
}

void Session::resume(const std::string& path) {
    Description description(*this);
    try {
        nn::load_checkpoint(path, context_, parts(description));
    } catch (const Error& error) {
        throw Error(fmt::format("--resume {}", error.what()));
    }
}

std::string Session::state_sha256() { return nn::state_sha256(context_, {parameters_, *optimizer_}); }

}  // namespace headroom::program
