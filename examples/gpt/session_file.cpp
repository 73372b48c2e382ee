// A training in a file: tensors by name, everything else as one JSON object in the metadata.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/examples/gpt/session.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/checkpoint.hpp>
#include <headroom/nn/state_hash.hpp>

namespace headroom::gpt {

namespace {

using Json = nlohmann::json;

constexpr const char* kKey = "train_gpt";

Json describe(const GptOptions& model) {
    return {{"vocabulary", model.vocabulary}, {"block", model.block}, {"layers", model.layers},
            {"heads", model.heads},           {"width", model.width}, {"dropout", model.dropout}};
}

Json describe(const Vocabulary& vocabulary) {
    return {{"kind", vocabulary_kind_name(vocabulary.kind())}, {"code_points", vocabulary.code_points()}};
}

Json describe(const LoaderState& state) {
    return {{"epoch", state.epoch},
            {"batch", state.batch},
            {"order", state.order},
            {"seed", state.seed},
            {"samples", state.samples},
            {"batch_size", state.batch_size},
            {"batches_per_epoch", state.batches_per_epoch}};
}

LoaderState loader_state(const Json& json) {
    return {.epoch = json.at("epoch"),
            .batch = json.at("batch"),
            .order = json.at("order"),
            .seed = json.at("seed"),
            .samples = json.at("samples"),
            .batch_size = json.at("batch_size"),
            .batches_per_epoch = json.at("batches_per_epoch")};
}

/// Names the first field that differs between what was saved and what was asked for.
void expect_same(const std::string& path, const Json& saved, const Json& asked) {
    for (const auto& [name, value] : asked.items()) {
        if (saved.contains(name) && saved[name] == value) continue;
        throw Error(fmt::format("--resume {}: it was trained with {} {}, not {}; use the same flags", path, name,
                                saved.contains(name) ? saved[name].dump() : "unknown", value.dump()));
    }
}

/// Restores a part of the state; what does not fit is an error that names the file.
template <class Work>
void restore(const std::string& path, Work&& work) {
    try {
        work();
    } catch (const Error& error) {
        throw Error(fmt::format("--resume {}: {}", path, error.what()));
    }
}

}  // namespace

void Session::save(const std::string& path) {
    const LossScale::State scale = window_.loss_scale().state();
    const std::int64_t taken = optimizer_.steps();
    const Json json = {
        {"version", 1},
        {"model", describe(model_.options)},
        {"vocabulary", describe(corpus_.vocabulary())},
        {"training", {{"seed", flags_.seed}, {"accumulate", flags_.accumulate}, {"dtype", flags_.dtype}}},
        {"optimizer_steps", taken},
        {"skipped_steps", steps_done_ - taken},
        {"random_counter", context_.random_counter()},
        {"loader", describe(loader_.state())},
        {"loss_scale", {{"scale", scale.scale}, {"good_steps", scale.good_steps}}}};
    save_parameters(path, parameters_, optimizer_.state(), {{kKey, json.dump()}});
}

void Session::resume(const std::string& path) {
    const SafetensorsFile file(path);
    const auto found = file.metadata().find(kKey);
    if (found == file.metadata().end())
        throw FileError(fmt::format("--resume {}: it was not saved by train_gpt", path));
    try {
        const Json json = Json::parse(found->second);
        expect_same(path, json.at("model"), describe(model_.options));
        if (json.at("vocabulary") != describe(corpus_.vocabulary())) {
            throw Error(
                fmt::format("--resume {}: it was trained on a text of other characters; use the same --data", path));
        }
        expect_same(path, json.at("training"),
                    {{"seed", flags_.seed}, {"accumulate", flags_.accumulate}, {"dtype", flags_.dtype}});
        const LoaderState order = loader_state(json.at("loader"));
        const LossScale::State scale{json.at("loss_scale").at("scale"), json.at("loss_scale").at("good_steps")};
        const std::int64_t skipped = json.at("skipped_steps");
        if (skipped < 0) throw FileError(fmt::format("--resume {}: the state in it is damaged (skipped steps)", path));
        restore(path, [&] { loader_.restore(order); });
        load_parameters(file, parameters_, {.extra = optimizer_.state()});
        const std::int64_t taken = json.at("optimizer_steps");
        restore(path, [&] { optimizer_.set_steps(taken); });
        steps_done_ = taken + skipped;
        context_.set_random_counter(json.at("random_counter"));
        restore(path, [&] { window_.set_loss_scale(scale); });
    } catch (const Json::exception& error) {
        throw FileError(fmt::format("--resume {}: the state in it is damaged ({})", path, error.what()));
    }
}

std::string Session::state_sha256() {
    return headroom::state_sha256(parameters_, optimizer_.state(), context_.random_counter());
}

}  // namespace headroom::gpt
