#pragma once
// A training for planners: two steps of a small GPT.
//
//     Planner planner({}, small_gpt_workload());
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/files/state_hash.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/plan/planner.hpp>

namespace headroom::plan {

inline constexpr std::size_t kPage = std::size_t{2} << 20;

inline nn::GptOptions small_gpt() { return {.vocabulary = 64, .block = 64, .layers = 6, .heads = 2, .width = 64}; }

/// Two steps of a GPT; a hash of its state.
inline std::string train_small_gpt(Context& context, const MicroBatching& division,
                                   std::optional<Dtype> half = std::nullopt) {
    const Autocast autocast(context, half);
    Parameters parameters(context);
    nn::Gpt model(parameters, small_gpt());
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(division.batch * 64));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 7 % 64);
    for (int step = 0; step < 2; ++step) {
        for (std::int64_t i = 0; i < division.accumulate; ++i) {
            accumulator.accumulate([&] {
                const Shape shape{division.batch, 64};
                return model.loss(context.from_host(ids, shape), context.from_host(ids, shape));
            });
        }
        accumulator.step(1e-3);
    }
    return context.dry() ? "" : files::state_sha256(context, {parameters, optimizer});
}

inline Workload small_gpt_workload() {
    return {.run = [](Context& dry, const MicroBatching& division) { train_small_gpt(dry, division); },
            .division = {.batch = 8}};
}

}  // namespace headroom::plan
