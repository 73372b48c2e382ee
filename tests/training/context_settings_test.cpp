// A training is rehearsed as its context is: whatever a program has set of a context, the rehearsal sees, and predicts
// by it. The lists below name all that there is to set, and fail to compile, or fail, where something is new.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/category.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/support/source_path.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace context_settings_test {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;
using Fields = std::map<std::string, std::string>;

/// Of a profile, as text. A field that is new does not compile.
Fields fields_of(const Profile& profile) {
    const auto& [threads, memory_limit, seed, slack, model, compute, memory, rank, ranks, reserve, in_use, policies,
                 micro_batch_policy, module_paths, random_counter, autocast, records, keeps_casts, finds_non_finite] =
        profile;
    const auto& [tf32, tune, deterministic, own_kernels, scratch_budget, graphs, in_place] = compute;
    std::string attached;
    for (const auto& [pattern, policy] : policies) attached += fmt::format("{}: {}\n", pattern, policy.to_string());
    return {{"threads", fmt::to_string(threads)},
            {"memory_limit", fmt::to_string(memory_limit)},
            {"seed", fmt::to_string(seed)},
            {"slack", fmt::to_string(slack)},
            {"model", model.name},
            {"compute.tf32", fmt::to_string(tf32)},
            {"compute.tune", fmt::to_string(tune)},
            {"compute.deterministic", fmt::to_string(deterministic)},
            {"compute.own_kernels", fmt::to_string(own_kernels)},
            {"compute.scratch_budget", fmt::to_string(scratch_budget)},
            {"compute.graphs", fmt::to_string(graphs)},
            {"compute.in_place", fmt::to_string(in_place)},
            {"memory", fmt::format("{} {} {}", memory.granularity, memory.alignment, memory.total_bytes)},
            {"rank", fmt::to_string(rank)},
            {"ranks", fmt::to_string(ranks)},
            {"reserve", fmt::to_string(reserve)},
            {"in_use", fmt::to_string(in_use)},
            {"policies", attached},
            {"micro_batch_policy", micro_batch_policy ? micro_batch_policy->to_string() : "none"},
            {"module_paths", fmt::format("{}", fmt::join(module_paths, " "))},
            {"random_counter", fmt::to_string(random_counter)},
            {"autocast", std::string(autocast ? name(*autocast) : "none")},
            {"records", fmt::to_string(records)},
            {"keeps_casts", fmt::to_string(keeps_casts)},
            {"finds_non_finite", fmt::to_string(finds_non_finite)}};
}

/// Names of those that differ.
std::set<std::string> differences(const Fields& a, const Fields& b) {
    std::set<std::string> names;
    for (const auto& [name, value] : a) {
        if (b.at(name) != value) names.insert(name);
    }
    return names;
}

/// What a task sees of its context when it is called for the first time, by the call; in the rehearsal, and in the run.
struct Sights {
    std::map<std::string, Fields> dry, real;
};

/// Sees its context in each call. Its batches are products, its layers wide, and its modules have a path.
class Seeing final : public test::OneLayerTask {
  public:
    static constexpr std::int64_t kWidth = 256;

    Seeing(Parameters& parameters, std::int64_t, std::int64_t validation_rows, Sights* sights)
        : test::OneLayerTask(parameters),
          parameters_(parameters),
          validation_rows_(validation_rows),
          sights_(sights),
          up_(nn::Path(parameters) / "up", kWidth, 2 * kWidth),
          down_(nn::Path(parameters) / "down", 2 * kWidth, 2) {
        see("making");
    }
    void begin() override { see("begin"); }
    Batch batch() override {
        see("batch");
        return {made(256), ones(context_, {1})};
    }
    Loss loss(const Batch& batch) override {
        see("loss");
        const RegionScope region(context_, context_.module_path("body"));
        return test::OneLayerTask::loss({down_(tanh(up_(batch[0]))), batch[1]});
    }
    Validation validate(const ProgressCallback&) override {
        see("validate");
        const Loss loss = this->loss({made(validation_rows_), ones(context_, {1})});
        return {.loss = loss.sum().item()};
    }
    std::int64_t validation_batches() const override { return 1; }
    void end() override { see("end"); }

  private:
    Tensor made(std::int64_t rows) { return matmul(ones(context_, {rows, kWidth}), ones(context_, {kWidth, kWidth})); }
    void see(const std::string& call) {
        Fields fields = fields_of(context_.profile());
        fields["training"] = fmt::to_string(parameters_.training());
        (context_.dry() ? sights_->dry : sights_->real).emplace(call, std::move(fields));
    }

    Parameters& parameters_;
    std::int64_t validation_rows_;
    Sights* sights_;
    nn::Linear up_, down_;
};

struct Setting {
    std::string name;
    ContextOptions options = {};
    /// What else is told to the context; what it returns lives as long as the training.
    std::function<std::shared_ptr<void>(Context&)> tell = [](Context&) { return nullptr; };
    std::set<std::string> fields = {};  ///< what the context is, then, in another way
    bool predicts = false;              ///< the prediction is another one
    std::int64_t validation_rows = 1;
};

struct Outcome {
    Sights sights;
    Report report;
    std::string error;
};

Outcome train(const Setting& setting, bool told) {
    Outcome outcome;
    ContextOptions options = told ? setting.options : ContextOptions();
    if (options.threads == 0) options.threads = 1;
    Context context = Context::cpu(options);
    const std::shared_ptr<void> scope = told ? setting.tell(context) : nullptr;
    TrainerOptions trained{.accumulate = 2,
                           .steps = 3,
                           .autocast = Dtype::bf16,
                           .validate_every = 2,
                           .handle_signals = false,
                           .print = false};
    try {
        outcome.report = Trainer(task<Seeing>(setting.validation_rows, &outcome.sights), trained).run(context);
    } catch (const Error& error) {
        outcome.error = error.what();
    }
    return outcome;
}

template <class Change>
Setting with_compute(const std::string& name, Change change) {
    Setting setting{.name = name, .fields = {"compute." + name}};
    change(setting.options.compute);
    return setting;
}

std::vector<Setting> settings() {
    return {
        {.name = "nothing"},
        {.name = "threads", .options = {.threads = 2}, .fields = {"threads"}},
        {.name = "memory_limit", .options = {.memory_limit = std::size_t{1} << 30}, .fields = {"memory_limit"}},
        {.name = "seed", .options = {.seed = 7}, .fields = {"seed"}},
        {.name = "memory",
         .options = {.memory =
                         std::make_shared<DeviceMemory>(memory::make_host_driver(), training_memory({.slack = 0.5}))},
         .fields = {"slack"}},
        with_compute("tf32", [](ComputeOptions& o) { o.tf32 = true; }),
        with_compute("tune", [](ComputeOptions& o) { o.tune = true; }),
        with_compute("deterministic", [](ComputeOptions& o) { o.deterministic = false; }),
        with_compute("own_kernels", [](ComputeOptions& o) { o.own_kernels = true; }),
        with_compute("scratch_budget", [](ComputeOptions& o) { o.scratch_budget = 1000; }),
        with_compute("graphs", [](ComputeOptions& o) { o.graphs = true; }),
        with_compute("in_place", [](ComputeOptions& o) { o.in_place = false; }),
        {.name = "policy",
         .tell = [](Context& context) { return context.policy("body", recompute_all()), nullptr; },
         .fields = {"policies"},
         .predicts = true},
        {.name = "policy of micro-batches",
         .tell = [](Context& context) { return context.policy(recompute_all()), nullptr; },
         .fields = {"micro_batch_policy"},
         .predicts = true},
        {.name = "modules of another model, and their policy",
         .tell =
             [](Context& context) {
                 context.module_path("teacher");
                 context.policy("teacher", recompute_all());
                 return nullptr;
             },
         .fields = {"module_paths", "policies"}},
        {.name = "random counter",
         .tell = [](Context& context) { return context.set_random_counter(3), nullptr; },
         .fields = {"random_counter"}},
        {.name = "autocast",
         .tell = [](Context& context) { return std::make_shared<Autocast>(context, Dtype::bf16); },
         .fields = {"autocast"},
         .predicts = true},
        {.name = "kept casts",
         .tell = [](Context& context) { return std::make_shared<KeptCasts>(context); },
         .fields = {"keeps_casts"},
         .predicts = true,
         .validation_rows = 8192},
        {.name = "check for what is not finite",
         .tell = [](Context& context) { return context.find_non_finite(true), nullptr; },
         .fields = {"finds_non_finite"}},
    };
}

TEST(ContextSettings, AreThoseOfTheRehearsal) {
    for (const Setting& setting : settings()) {
        SCOPED_TRACE(setting.name);
        const Outcome usual = train(setting, false), told = train(setting, true);
        ASSERT_EQ(usual.error + told.error, "");
        for (const Outcome* const outcome : {&usual, &told}) {
            const Sights& sights = outcome->sights;
            ASSERT_EQ(sights.dry.size(), 6u);
            ASSERT_EQ(sights.real.size(), sights.dry.size());
            for (const auto& [call, seen] : sights.real)
                EXPECT_THAT(differences(seen, sights.dry.at(call)), IsEmpty()) << call;
            EXPECT_EQ(outcome->report.peak_bytes_allocated, outcome->report.forecast.peak.allocated);
            // A rehearsal validates once more than so short a training, which may take another page.
            EXPECT_LE(outcome->report.peak_bytes_reserved, outcome->report.forecast.peak.reserved);
            EXPECT_EQ(outcome->report.last_step.replayed_ops, outcome->report.forecast.replayed_ops);
        }
        EXPECT_EQ(differences(told.sights.dry.at("making"), usual.sights.dry.at("making")), setting.fields);
        const auto predicted = [](const Outcome& outcome) {
            const Forecast& forecast = outcome.report.forecast;
            return std::pair(forecast.peak.allocated, forecast.replayed_ops.value());
        };
        if (setting.predicts) {
            EXPECT_NE(predicted(told), predicted(usual));
        }
    }
}

/// Modes are the calls', not the context's.
TEST(ContextSettings, TrainingAndEvaluationAreRehearsedWhereTheyAre) {
    const Sights sights = train({.name = "nothing"}, false).sights;
    for (const auto* const seen : {&sights.dry, &sights.real}) {
        for (const auto& [call, evaluates] : std::map<std::string, bool>{{"making", false},
                                                                         {"begin", false},
                                                                         {"batch", false},
                                                                         {"loss", false},
                                                                         {"validate", true},
                                                                         {"end", true}}) {
            EXPECT_EQ(seen->at(call).at("training"), evaluates ? "false" : "true") << call;
            EXPECT_EQ(seen->at(call).at("records"), evaluates ? "false" : "true") << call;
            const bool cast = evaluates || call == "loss";
            EXPECT_EQ(seen->at(call).at("autocast"), cast ? "bf16" : "none") << call;
        }
    }
}

/// Nothing can be trained in such a scope: the rehearsal says so, before anything is computed.
TEST(ContextSettings, ARehearsalRecordsNothingWhereItsContextDoesNot) {
    const Outcome outcome =
        train({.name = "no gradients", .tell = [](Context& context) { return std::make_shared<NoGradGuard>(context); }},
              true);
    EXPECT_NE(outcome.error, "");
    EXPECT_FALSE(outcome.sights.dry.empty());
    EXPECT_THAT(outcome.sights.real, IsEmpty());
}

TEST(ContextSettings, ARankIsRehearsedAsThatRank) {
    std::map<int, Sights> sights;
    for (const int rank : {0, 1}) sights[rank];
    dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        Sights& own = sights.at(group->rank());
        Context context = Context::cpu({.threads = 1, .group = group});
        class Shared final : public test::OneLayerTask {
          public:
            Shared(Parameters& parameters, std::int64_t, Sights* sights) : test::OneLayerTask(parameters) {
                (context_.dry() ? sights->dry : sights->real).emplace("making", fields_of(context_.profile()));
            }
        };
        Trainer(task<Shared>(&own), {.accumulate = 2, .steps = 1, .handle_signals = false, .print = false})
            .run(context);
    });
    for (const auto& [rank, seen] : sights) {
        EXPECT_EQ(seen.dry.at("making"), seen.real.at("making"));
        EXPECT_EQ(seen.dry.at("making").at("rank"), std::to_string(rank));
        EXPECT_EQ(seen.dry.at("making").at("ranks"), "2");
    }
}

/// A dry context is as its profile says, in every field; also those that a GPU alone has.
TEST(ContextSettings, AreAllInAProfile) {
    Profile unusual = Profile::gpu(gpu_model("RTX 3090"));
    unusual.threads = 3;
    unusual.memory_limit = std::size_t{1} << 30;
    unusual.seed = 7;
    unusual.slack = 0.5;
    unusual.compute = {.tf32 = true,
                       .tune = true,
                       .deterministic = false,
                       .own_kernels = true,
                       .scratch_budget = 1000,
                       .graphs = true,
                       .in_place = false};
    unusual.rank = 1;
    unusual.ranks = 2;
    unusual.reserve = 3 << 20;
    unusual.in_use = 5 << 20;
    unusual.policies = {{"body", keep_all()}};
    unusual.micro_batch_policy = recompute_cheap();
    unusual.module_paths = {"body", "head"};
    unusual.random_counter = 11;
    unusual.autocast = Dtype::f16;
    unusual.records = false;
    unusual.keeps_casts = true;
    unusual.finds_non_finite = true;
    const Fields told = fields_of(unusual);
    Context dry = Context::dry(unusual);
    EXPECT_THAT(differences(fields_of(dry.profile()), told), IsEmpty());
    EXPECT_EQ(differences(fields_of(Context::cpu({.threads = 1}).profile()), told).size(), told.size());
}

/// Each of a context's options has a case above, or a reason to have none. One that is new does not compile.
TEST(ContextSettings, OptionsAreAllConsidered) {
    const auto& [threads, memory_limit, gpu_reserve, gpu_in_use, seed, memory, compute, tuning_file,
                 fill_uninitialized_memory, group] = ContextOptions();
    // In a profile as `reserve` and `in_use`, which a context on a CPU does not have.
    EXPECT_EQ(gpu_reserve, kGpuReserve);
    EXPECT_EQ(gpu_in_use, 0u);
    // Choices of algorithms and contents of memory: no bytes of memory depend on them.
    EXPECT_TRUE(tuning_file.empty());
    EXPECT_FALSE(fill_uninitialized_memory);
    EXPECT_FALSE(threads != 0 || memory_limit != 0 || seed != 0 || memory || group || compute != ComputeOptions());
}

/// Likewise for what a context remembers: a member that is new is in a profile, or has a reason not to be.
TEST(ContextSettings, MembersAreAllConsidered) {
    const std::set<std::string> in_profile{"stream_",
                                           "memory_",
                                           "group_",
                                           "model_",
                                           "reserve_",
                                           "in_use_",
                                           "seed_",
                                           "random_counter_",
                                           "autocast_",
                                           "policies_",
                                           "micro_batch_policy_",
                                           "module_paths_",
                                           "find_non_finite_",
                                           "tape_"};
    const std::set<std::string> not_in_profile{
        "device_",
        "state_",
        "tuning_file_",  // of a device that is there
        "draws_",
        "in_micro_batch_",
        "first_non_finite_",  // of the work that goes on
        "policies_checked_",
        "policy_of_path_",    // follow from the policies
        "settings_version_",  // counts changes
        "model_names_"};      // parameters of the rehearsal have the names of the real ones
    std::stringstream header;
    header << std::ifstream(test::source_path("core/context.hpp")).rdbuf();
    const std::string text = header.str();
    const std::size_t begin = text.find("\nclass Context {"), end = text.find("\n};", begin);
    ASSERT_NE(begin, text.npos);
    const std::string body = text.substr(begin, end - begin);
    const std::regex member(R"(\b([a-z][a-z_]*_)(?= = [^=]|;|,[^()]*;))");
    std::set<std::string> members;
    for (std::sregex_iterator it(body.begin(), body.end(), member); it != std::sregex_iterator(); ++it) {
        const std::string line = body.substr(0, static_cast<std::size_t>(it->position()));
        const std::string before = line.substr(line.rfind('\n') + 1);
        if (before.find('(') == before.npos && before.find("return") == before.npos) members.insert((*it)[1]);
    }
    std::set<std::string> considered = in_profile;
    considered.insert(not_in_profile.begin(), not_in_profile.end());
    EXPECT_THAT(members, UnorderedElementsAreArray(considered));
}

}  // namespace context_settings_test
}  // namespace headroom::training
