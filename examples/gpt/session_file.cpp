// A training in a file: what its parts are, and what train_gpt was told, as one JSON object.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/examples/gpt/session.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/checkpoint.hpp>
#include <headroom/nn/state_hash.hpp>

namespace headroom::gpt {

namespace {

using Json = nlohmann::json;

constexpr const char* kDescription = "train_gpt";
constexpr const char* kSteps = "steps";

Json describe(const nn::GptOptions& model) {
    return {{"vocabulary", model.vocabulary}, {"block", model.block}, {"layers", model.layers},
            {"heads", model.heads},           {"width", model.width}, {"dropout", model.dropout}};
}

Json describe(const data::Vocabulary& vocabulary) {
    return {{"kind", data::vocabulary_kind_name(vocabulary.kind())}, {"code_points", vocabulary.code_points()}};
}

Json describe(const GptFlags& flags) {
    return {{"seed", flags.seed}, {"accumulate", flags.accumulate}, {"dtype", flags.dtype}};
}

/// Names the first field that differs between what was saved and what was asked for.
void expect_same(const Json& saved, const Json& asked) {
    for (const auto& [name, value] : asked.items()) {
        if (saved.contains(name) && saved[name] == value) continue;
        throw Error(fmt::format("it was trained with {} {}, not {}; use the same flags", name,
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
        const Json json = {{"model", describe(session_.model_.options)},
                           {"vocabulary", describe(session_.corpus_.vocabulary())},
                           {"training", describe(session_.flags_)}};
        return {{}, {{kDescription, json.dump()}, {kSteps, fmt::to_string(session_.steps_done_)}}};
    }
    void restore(const StateValues& values) {
        const auto text = state_value<std::string>(values, kDescription);
        const auto steps = state_value<std::int64_t>(values, kSteps);
        const Json json = Json::parse(text, nullptr, false);
        if (!json.is_object() || steps < 0) throw FileError("what train_gpt wrote into it is damaged");
        expect_same(json.value("model", Json::object()), describe(session_.model_.options));
        if (json.value("vocabulary", Json()) != describe(session_.corpus_.vocabulary())) {
            throw Error("it was trained on a text of other characters; use the same --data");
        }
        expect_same(json.value("training", Json::object()), describe(session_.flags_));
        session_.steps_done_ = steps;
    }

  private:
    Session& session_;
};

void Session::save(const std::string& path) {
    Description description(*this);
    nn::save_checkpoint(path, context_, {description, parameters_, optimizer_, accumulator_, loader_});
}

void Session::resume(const std::string& path) {
    Description description(*this);
    try {
        nn::load_checkpoint(path, context_, {description, parameters_, optimizer_, accumulator_, loader_});
    } catch (const Error& error) {
        throw Error(fmt::format("--resume {}", error.what()));
    }
}

std::string Session::state_sha256() { return nn::state_sha256(context_, {parameters_, optimizer_}); }

}  // namespace headroom::gpt
