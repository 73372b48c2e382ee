// The learned plan. `place`: the time to compute one, with the height reached over the most bytes live at once (1 is
// the best there can be) and the number of requests. `follow`: one request and its free by a plan.
#include <benchmark/benchmark.h>

#include <optional>
#include <vector>

#include <headroom/memory/plan/placement.hpp>
#include <headroom/memory/plan/plan_follower.hpp>

#include "training_steps.hpp"

namespace {

using namespace headroom;

void place(benchmark::State& state, const StepRecorder& recorder) {
    const std::vector<Lifetime> lifetimes = lifetimes_of(recorder);
    std::size_t height = 0;
    for (auto _ : state) height = headroom::place(lifetimes).height;
    state.counters["requests"] = static_cast<double>(lifetimes.size());
    state.counters["over_bound"] = static_cast<double>(height) / static_cast<double>(max_live(lifetimes));
}

void place_gpt(benchmark::State& state, GptStep step) { place(state, record_gpt_step(step)); }
BENCHMARK_CAPTURE(place_gpt, 12_layers, {})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(place_gpt, 4_micro_batches, {.micro_batches = 4})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(place_gpt, recompute, {.micro_batches = 16, .checkpoint = true})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(place_gpt, offload, {.micro_batches = 16, .offload = true})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(place_gpt, experts, {.micro_batches = 16, .experts = 8})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(place_gpt, lengths_and_experts_vary, {.micro_batches = 16, .experts = 8, .lengths_vary = true})
    ->Unit(benchmark::kMillisecond);

/// Far from training: random sizes, freed in random order.
void place_random(benchmark::State& state) {
    place(state,
          record_random_step(static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)), 1));
}
BENCHMARK(place_random)
    ->Args({1000, 30})
    ->Args({5000, 100})
    ->Args({5000, 1000})
    ->Args({20000, 300})
    ->Args({20000, 5000})
    ->Unit(benchmark::kMillisecond);

/// A step of a GPT as recorded, over and over.
void follow(benchmark::State& state, GptStep step) {
    const StepRecorder recorder = record_gpt_step(step);
    const auto requests = recorder.requests();
    std::vector<std::vector<std::uint32_t>> frees(requests.size() + 1);
    for (std::uint32_t i = 0; i < requests.size(); ++i) frees[requests[i].end].push_back(i);
    PlanFollower follower{Plan(requests)};
    std::uint64_t missed = 0;
    for (auto _ : state) {
        follower.begin_step();
        for (std::size_t i = 0; i <= requests.size(); ++i) {
            // As recorded, a request's slot has its number.
            for (const std::uint32_t number : frees[i]) follower.release(number);
            if (i < requests.size()) missed += !follower.next(requests[i].bytes, requests[i].stream);
        }
    }
    if (missed) state.SkipWithError("a request was not planned");
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(requests.size()));
}
BENCHMARK_CAPTURE(follow, 12_layers, {});
BENCHMARK_CAPTURE(follow, offload, {.micro_batches = 16, .offload = true});
BENCHMARK_CAPTURE(follow, lengths_and_experts_vary, {.micro_batches = 16, .experts = 8, .lengths_vary = true});

}  // namespace
