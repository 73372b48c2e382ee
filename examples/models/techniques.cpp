#include <headroom/examples/models/techniques.hpp>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/examples/models/task.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/plan/planner.hpp>

namespace headroom::techniques {

namespace {

using training::Trainer;

/// What rows of one question have in common.
struct Comparison {
    const Question& question;
    Profile profile;
    std::optional<plan::Costs> costs = {};
    const models::Model& model = models::all().at(question.model);

    training::MakeTask task() const { return models::task_of(model, question.sizes); }

    /// Keeps all, and has the whole batch at once.
    Row row(const std::string& technique, const std::string& name) const {
        Row row{.technique = technique, .name = name, .dtype = question.dtype, .optimizer = question.optimizer};
        row.compute = profile.compute;
        set_options(row);
        return row;
    }
    void set_options(Row& row) const {
        row.options = models::options_of(model, question.sizes, row.dtype, row.optimizer);
        row.options.steps = question.steps;
        row.options.costs = costs;
    }
};

using Rows = std::vector<Row>;

Rows baseline(const Comparison& comparison) { return {comparison.row("baseline", "keep all")}; }

/// The effective batch in 2, 4, ... micro-batches, down to one sample.
Rows accumulation(const Comparison& comparison) {
    Rows rows;
    const std::int64_t batch = comparison.question.sizes.batch;
    for (std::int64_t parts = 2; parts <= batch && batch % parts == 0; parts *= 2) {
        Row& row =
            rows.emplace_back(comparison.row("gradient accumulation", fmt::format("{} x {}", parts, batch / parts)));
        row.options.batch = batch / parts;
        row.options.accumulate = parts;
    }
    return rows;
}

/// Another training.
Rows smaller_batch(const Comparison& comparison) {
    Rows rows;
    for (std::int64_t batch = comparison.question.sizes.batch / 2; batch >= 1; batch /= 2) {
        Row& row = rows.emplace_back(comparison.row("smaller batch", fmt::format("batch {}", batch)));
        row.options.batch = batch;
    }
    return rows;
}

Rows checkpointing(const Comparison& comparison) {
    Rows rows;
    for (const models::Way& way : comparison.model.ways) {
        if (way.name == comparison.model.ways.front().name) continue;
        rows.push_back(comparison.row("gradient checkpointing", way.name));
        rows.back().options.recompute = way.name;
    }
    return rows;
}

Rows mixed_precision(const Comparison& comparison) {
    Rows rows;
    for (const char* dtype : {"f32", "bf16", "f16"}) {
        if (dtype == comparison.question.dtype) continue;
        Row& row = rows.emplace_back(comparison.row("mixed precision", dtype));
        row.dtype = dtype;
        comparison.set_options(row);
    }
    return rows;
}

Rows optimizers(const Comparison& comparison) {
    const std::string other = comparison.question.optimizer == "adamw" ? "sgd" : "adamw";
    Row row = comparison.row("optimizer", other);
    row.optimizer = other;
    comparison.set_options(row);
    return {std::move(row)};
}

/// In so many budgets from the least to what keeping all takes, each plan once.
Rows plans(const Comparison& comparison) {
    Rows rows;
    const Row plain = comparison.row("plan", "");
    const auto planner = Trainer(comparison.task(), plain.options).planner(comparison.profile);
    const std::size_t floor = planner->floor_bytes(), range = planner->keep_all_bytes() - floor;
    const auto intervals = static_cast<std::size_t>(std::max<std::int64_t>(comparison.question.budgets - 1, 1));
    std::set<std::size_t> peaks;
    for (std::size_t i = 0; i < static_cast<std::size_t>(comparison.question.budgets); ++i) {
        const std::size_t budget = floor + range * i / intervals;
        const plan::Plan plan = planner->fit(budget);
        if (!peaks.insert(plan.peak_bytes_reserved).second) continue;
        Row& row = rows.emplace_back(plain);
        row.name = memory::format_bytes(budget);
        row.budget = budget;
        Trainer trainer(comparison.task(), row.options);
        trainer.follow(plan);
        row.options = trainer.options();
    }
    return rows;
}

/// What only GPUs do in another way.
Rows on_gpu(const Comparison& comparison, const std::string& technique, bool ComputeOptions::*option) {
    if (comparison.profile.compute.*option || !comparison.profile.cuda) return {};
    Row row = comparison.row(technique, "keep all");
    row.compute.*option = true;
    return {std::move(row)};
}

using MakeRows = Rows (*)(const Comparison&);

const std::vector<std::pair<std::string, MakeRows>>& all() {
    static const std::vector<std::pair<std::string, MakeRows>> techniques{
        {"baseline", baseline},
        {"checkpointing", checkpointing},
        {"accumulation", accumulation},
        {"smaller_batch", smaller_batch},
        {"mixed_precision", mixed_precision},
        {"optimizer", optimizers},
        {"plan", plans},
        {"tf32", [](const Comparison& c) { return on_gpu(c, "TF32", &ComputeOptions::tf32); }},
        {"graphs", [](const Comparison& c) { return on_gpu(c, "CUDA graphs", &ComputeOptions::graphs); }},
        {"tuning", [](const Comparison& c) { return on_gpu(c, "tuning", &ComputeOptions::tune); }}};
    return techniques;
}

Rows rows_of(const Comparison& comparison) {
    const std::vector<std::string>& asked = comparison.question.techniques;
    for (const std::string& name : asked) {
        if (std::ranges::find(all(), name, &std::pair<std::string, MakeRows>::first) == all().end())
            throw Error(fmt::format("there is no technique {}; there are {}", name, fmt::join(names(), ", ")));
    }
    Rows rows;
    for (const auto& [name, make] : all()) {
        if (!asked.empty() && std::ranges::find(asked, name) == asked.end()) continue;
        for (Row& row : make(comparison)) rows.push_back(std::move(row));
    }
    for (Row& row : rows) {
        Profile profile = comparison.profile;
        profile.compute = row.compute;
        row.forecast = Trainer(comparison.task(), row.options).rehearse(profile.endless());
    }
    return rows;
}

void train(const Comparison& comparison, Row& row, Context& context) {
    const training::Report report = Trainer(comparison.task(), row.options).train(context, row.forecast);
    row.peak_bytes_allocated = report.peak_bytes_allocated;
    row.peak_bytes_reserved = report.peak_bytes_reserved;
    row.step_seconds.push_back(report.step_seconds.value());
    row.loss = report.train_loss.value();
    row.replayed_ops = report.replayed_ops;
    row.driver_calls = context.memory().statistics().driver_calls;
    row.used = report.used;
    row.state_sha256 = report.state_sha256;
}

bool keeps_all(const Row& row) {
    return row.options.recompute == row.options.recomputes.front().name &&
           !(row.options.plan && row.options.plan->policy);
}

/// The same training but for what is kept.
bool same_arithmetic(const Row& a, const Row& b) {
    const auto key = [](const Row& row) {
        return std::tuple(row.options.batch, row.options.accumulate, row.dtype, row.optimizer, row.compute.tf32,
                          row.compute.tune);
    };
    return key(a) == key(b);
}

}  // namespace

std::vector<std::string> names() {
    std::vector<std::string> result;
    for (const auto& [name, make] : all()) result.push_back(name);
    return result;
}

std::vector<Row> rehearsed(const Question& question, const Profile& profile) {
    return rows_of({.question = question, .profile = profile});
}

std::vector<Row> compared(const Question& question, const MakeContext& make_context,
                          const std::function<void(const Row&, std::int64_t round)>& watch) {
    Comparison comparison{.question = question, .profile = make_context({}).profile()};
    {
        Context context = make_context({});
        comparison.costs = Trainer(comparison.task(), comparison.row("", "").options).calibrate(context);
    }
    Rows rows = rows_of(comparison);
    const auto try_to_train = [&](Row& row, std::int64_t round) {
        if (!row.refused.empty()) return;
        if (watch) watch(row, round);
        try {
            Context context = make_context(row.compute);
            train(comparison, row, context);
        } catch (const OutOfMemory& error) {
            row.refused = std::string(error.what()).substr(0, std::string(error.what()).find('\n'));
        }
    };
    for (std::int64_t round = 0; round < question.rounds; ++round) {
        for (Row& row : rows) try_to_train(row, round);
    }
    // Bits are compared with keeping all: with a row, or a training for that alone.
    Rows kept;
    std::ranges::copy_if(rows, std::back_inserter(kept), keeps_all);
    for (Row& row : rows) {
        if (!row.refused.empty()) continue;
        const auto alike = [&](const Row& other) { return same_arithmetic(other, row); };
        auto found = std::ranges::find_if(kept, alike);
        if (found == kept.end()) {
            Row other = row;
            other.options.recompute = other.options.recomputes.front().name;
            other.options.plan.reset();
            try_to_train(other, question.rounds);
            found = kept.insert(kept.end(), std::move(other));
        }
        if (found->refused.empty()) row.same_bits = row.state_sha256 == found->state_sha256;
    }
    return rows;
}

}  // namespace headroom::techniques
