#include <headroom/examples/models/techniques.hpp>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/examples/models/peers.hpp>
#include <headroom/examples/models/task.hpp>
#include <headroom/kernels/device/shape.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/plan/largest.hpp>
#include <headroom/plan/planner.hpp>

namespace headroom::techniques {

namespace {

using training::Trainer;

/// What rows of one question have in common.
struct Setup {
    const Question& question;
    Profile profile;
    std::optional<plan::Costs> costs = {};
    const models::Model& model = question.model;

    Trainer trainer(const Row& row) const {
        return {models::task_of(model, question.sizes, row.whole_logits), row.options};
    }
    /// A GPU without bf16 and TF32.
    bool on_old_gpu() const { return profile.cuda() && profile.model.capability < kernels::device::kBf16Capability; }
    Profile endless(const Row& row) const {
        Profile endless = profile.endless();
        endless.compute = row.compute;
        return endless;
    }
    training::Forecast forecast(const Row& row) const { return trainer(row).rehearse(endless(row)); }

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

Rows baseline(const Setup& setup) { return {setup.row("baseline", "keep all")}; }

/// The effective batch in 2, 4, ... micro-batches, down to one sample.
Rows accumulation(const Setup& setup) {
    Rows rows;
    const std::int64_t batch = setup.question.sizes.batch;
    for (std::int64_t parts = 2; parts <= batch && batch % parts == 0; parts *= 2) {
        Row& row = rows.emplace_back(setup.row("gradient accumulation", fmt::format("{} x {}", parts, batch / parts)));
        row.options.batch = batch / parts;
        row.options.accumulate = parts;
    }
    return rows;
}

/// Another training.
Rows smaller_batch(const Setup& setup) {
    Rows rows;
    for (std::int64_t batch = setup.question.sizes.batch / 2; batch >= 1; batch /= 2) {
        Row& row = rows.emplace_back(setup.row("smaller batch", fmt::format("batch {}", batch)));
        row.options.batch = batch;
    }
    return rows;
}

Rows checkpointing(const Setup& setup) {
    Rows rows;
    for (const nn::RecomputeWay& way : setup.model.ways) {
        if (way.name == setup.model.ways.front().name) continue;
        rows.push_back(setup.row("gradient checkpointing", way.name));
        rows.back().options.recompute = way.name;
    }
    return rows;
}

Rows mixed_precision(const Setup& setup) {
    Rows rows;
    for (const char* dtype : {"f32", "bf16", "f16"}) {
        if (dtype == setup.question.dtype || (setup.on_old_gpu() && dtype == std::string_view("bf16"))) continue;
        Row& row = rows.emplace_back(setup.row("mixed precision", dtype));
        row.dtype = dtype;
        setup.set_options(row);
    }
    return rows;
}

Rows optimizers(const Setup& setup) {
    Rows rows;
    for (const std::string& other : training::optimizer_names()) {
        if (other == setup.question.optimizer) continue;
        Row& row = rows.emplace_back(setup.row("optimizer", other));
        row.optimizer = other;
        setup.set_options(row);
    }
    return rows;
}

/// The loss, where the model's own computes its logits in chunks.
Rows whole_logits(const Setup& setup) {
    if (!setup.model.chunks_logits) return {};
    Row row = setup.row("chunked loss", "whole logits");
    row.whole_logits = true;
    return {std::move(row)};
}

Rows not_in_place(const Setup& setup) {
    Row row = setup.row("in-place activation", "not in place");
    row.compute.in_place = false;
    return {std::move(row)};
}

std::unique_ptr<plan::Planner> planner_of(const Setup& setup, std::optional<bool> split_batch = {}) {
    Row row = setup.row("plan", "");
    row.options.split_batch = split_batch;
    return setup.trainer(row).planner(setup.profile);
}

/// In so many budgets from the least to what keeping all takes, and in that of the question, if need be in
/// micro-batches; each plan once.
Rows plans(const Setup& setup) {
    Rows rows;
    std::set<std::size_t> peaks;
    const auto add = [&](plan::Planner& planner, std::size_t budget) {
        const plan::Plan plan = planner.fit(budget);
        if (!peaks.insert(plan.peak_bytes_reserved).second) return;
        Row& row = rows.emplace_back(setup.row("plan", memory::format_bytes(budget)));
        row.budget = budget;
        Trainer trainer = setup.trainer(row);
        trainer.apply(plan);
        row.options = trainer.options();
    };
    const auto planner = planner_of(setup);
    const std::size_t floor = planner->floor_bytes(), range = planner->keep_all_bytes() - floor;
    if (const std::size_t within = setup.question.within; within >= floor) {
        add(*planner, within);
    } else if (within > 0) {
        const auto dividing = planner_of(setup, true);
        if (dividing->floor_bytes() <= within) add(*dividing, within);
    }
    const auto intervals = static_cast<std::size_t>(std::max<std::int64_t>(setup.question.budgets - 1, 1));
    for (std::size_t i = 0; i < static_cast<std::size_t>(setup.question.budgets); ++i)
        add(*planner, floor + range * i / intervals);
    return rows;
}

/// What only GPUs do in another way.
Rows on_gpu(const Setup& setup, const std::string& technique, bool ComputeOptions::*option) {
    if (setup.profile.compute.*option || !setup.profile.cuda()) return {};
    Row row = setup.row(technique, "keep all");
    row.compute.*option = true;
    return {std::move(row)};
}

using MakeRows = Rows (*)(const Setup&);

const std::vector<std::pair<std::string, MakeRows>>& all() {
    static const std::vector<std::pair<std::string, MakeRows>> techniques{
        {"baseline", baseline},
        {"checkpointing", checkpointing},
        {"accumulation", accumulation},
        {"smaller_batch", smaller_batch},
        {"mixed_precision", mixed_precision},
        {"optimizer", optimizers},
        {"chunked_loss", whole_logits},
        {"in_place", not_in_place},
        {"plan", plans},
        {"tf32", [](const Setup& c) { return c.on_old_gpu() ? Rows{} : on_gpu(c, "TF32", &ComputeOptions::tf32); }},
        {"graphs", [](const Setup& c) { return on_gpu(c, "CUDA graphs", &ComputeOptions::graphs); }},
        {"tuning", [](const Setup& c) { return on_gpu(c, "tuning", &ComputeOptions::tune); }}};
    return techniques;
}

bool has_plan(const Row& row) { return row.budget > 0; }

constexpr std::int64_t kMost = std::int64_t{1} << 20;
constexpr std::size_t kEvents = 1'000'000;  // of a history

/// The largest micro-batch that takes at most the bytes of the question. A task may refuse more samples than its data
/// has.
std::optional<std::int64_t> largest_within(const Setup& setup,
                                           const std::function<std::size_t(std::int64_t batch)>& bytes_of) {
    if (setup.question.within == 0) return {};
    const auto fits = [&](std::int64_t batch) -> std::optional<bool> {
        try {
            return bytes_of(batch) <= setup.question.within;
        } catch (const Error&) {
            const std::int64_t asked = setup.question.sizes.batch;
            if (batch == asked || (batch > asked && !setup.model.task)) throw;
            return batch < asked ? std::nullopt : std::optional(false);
        }
    };
    return plan::largest_size(1, kMost, fits);
}

std::optional<std::int64_t> largest_of(const Setup& setup, Row row) {
    row.options.accumulate = 1;
    return largest_within(setup, [&](std::int64_t batch) {
        row.options.batch = batch;
        return setup.forecast(row).peak.reserved;
    });
}

std::optional<std::int64_t> largest_of_plans(const Setup& setup) {
    Row row = setup.row("", "");
    row.options.split_batch = false;
    return largest_within(setup, [&](std::int64_t batch) {
        row.options.batch = batch;
        return setup.trainer(row).planner(setup.profile)->floor_bytes();
    });
}

Rows rows_of(const Setup& setup) {
    const std::vector<std::string>& asked = setup.question.techniques;
    for (const std::string& name : asked) {
        if (std::ranges::find(all(), name, &std::pair<std::string, MakeRows>::first) == all().end())
            throw Error(fmt::format("there is no technique {}; the techniques are {}", name, fmt::join(names(), ", ")));
    }
    Rows rows;
    for (const auto& [name, make] : all()) {
        if (!asked.empty() && std::ranges::find(asked, name) == asked.end()) continue;
        for (Row& row : make(setup)) rows.push_back(std::move(row));
    }
    if (rows.empty())
        throw Error(fmt::format("{} has nothing that {} would change on this device", setup.model.name,
                                fmt::join(asked, " or ")));
    std::optional<std::int64_t> of_plans;
    if (std::ranges::any_of(rows, has_plan)) of_plans = largest_of_plans(setup);
    for (Row& row : rows) {
        try {
            row.forecast = setup.forecast(row);
        } catch (const Error& error) {
            if (row.options.batch >= setup.question.sizes.batch) throw;
            row.refused = error.what();  // a norm wants more than one value, say
            continue;
        }
        row.parameters = row.forecast.parameters;
        row.largest = has_plan(row) ? of_plans : largest_of(setup, row);
    }
    return rows;
}

/// Without micro-batches. Where a task's data has fewer samples, up to its last batch.
std::vector<Larger> larger(const Setup& setup) {
    std::vector<std::pair<std::string, Setup>> machines{{plan::Machine::of(setup.profile).name, setup}};
    if (!setup.profile.cuda())
        machines.emplace_back("H100", Setup{.question = setup.question, .profile = Profile::gpu(gpu_model("H100"))});
    std::vector<Larger> result;
    for (const auto& [machine, on] : machines) {
        std::vector<const nn::RecomputeWay*> ends{&setup.model.ways.front()};
        if (setup.model.ways.size() > 1) ends.push_back(&setup.model.ways.back());
        for (const nn::RecomputeWay* way : ends) {
            Row row = on.row("", "");
            row.options.recompute = way->name;
            const std::int64_t batch = row.options.batch;
            for (row.options.batch = batch; row.options.batch <= 64 * batch; row.options.batch *= 2) {
                try {
                    result.push_back({machine, way->name, row.options.batch, on.forecast(row)});
                } catch (const Error&) {
                    if (!on.model.task) throw;
                    break;
                }
            }
        }
    }
    return result;
}

void train(const Setup& setup, Row& row, Context& context) {
    const training::Report report = setup.trainer(row).train(context, row.forecast);
    row.peak_bytes_allocated = report.peak_bytes_allocated;
    row.peak_bytes_reserved = report.peak_bytes_reserved;
    row.step_seconds.push_back(report.step_seconds.value());
    row.loss = report.train_loss.value();
    row.last_step = report.last_step;
    row.driver_calls = context.memory().statistics().driver_calls;
    row.used = report.used;
    row.state_sha256 = report.state_sha256;
}

bool keeps_all(const Row& row) {
    return row.peer.empty() && row.options.recompute == row.options.recomputes.front().name &&
           !(row.options.plan && row.options.plan->policy);
}

/// Both in their orders, spread evenly over each other.
Rows in_turn(Rows ours, Rows theirs) {
    Rows rows;
    std::size_t next = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
        rows.push_back(std::move(ours[i]));
        for (; next * ours.size() < (i + 1) * theirs.size(); ++next) rows.push_back(std::move(theirs[next]));
    }
    return rows;
}

/// The same training but for what is kept.
bool same_arithmetic(const Row& a, const Row& b) {
    const auto key = [](const Row& row) {
        return std::tuple(row.options.batch, row.options.accumulate, row.dtype, row.optimizer, row.whole_logits,
                          row.compute.tf32, row.compute.tune);
    };
    return key(a) == key(b);
}

}  // namespace

std::vector<std::string> names() {
    std::vector<std::string> result;
    for (const auto& [name, make] : all()) result.push_back(name);
    return result;
}

Comparison rehearsed(const Question& question, const Profile& profile) {
    const Setup setup{.question = question, .profile = profile};
    return {rows_of(setup), larger(setup)};
}

std::vector<memory::MemorySnapshot> histories(const Question& question, const std::vector<Row>& rows,
                                              const Profile& profile) {
    const Setup setup{.question = question, .profile = profile};
    std::vector<memory::MemorySnapshot> result;
    for (const Row& row : rows) {
        rehearse(setup.endless(row), [&](Context& dry) {
            dry.memory().start_history(kEvents);
            setup.trainer(row).rehearse(dry);
            result.push_back(dry.memory().snapshot());
        });
    }
    return result;
}

Comparison compared(const Question& question, const MakeContext& make_context,
                    const std::function<void(const Row&, std::int64_t round)>& watch, const Peers* peers) {
    Rows theirs = peers ? peers->rows() : Rows();
    Setup setup{.question = question, .profile = make_context({}).profile()};
    {
        Context context = make_context({});
        setup.costs = setup.trainer(setup.row("", "")).calibrate(context, std::min<std::int64_t>(question.rounds, 3));
    }
    Rows rows = in_turn(rows_of(setup), std::move(theirs));
    const auto try_to_train = [&](Row& row, std::int64_t round) {
        if (!row.refused.empty() || (row.compiled && round > 0)) return;
        if (watch) watch(row, round);
        if (!row.peer.empty()) return peers->train(row);
        try {
            Context context = make_context(row.compute);
            train(setup, row, context);
        } catch (const OutOfMemory& error) {
            row.refused = std::string(error.what()).substr(0, std::string(error.what()).find('\n'));
        }
    };
    for (std::int64_t round = 0; round < question.rounds; ++round) {
        for (Row& row : rows) try_to_train(row, round);
    }
    // Bits are compared with keeping all: with a row, or a training for that alone.
    std::ranges::stable_partition(rows, [](const Row& row) { return row.peer.empty(); });
    Rows kept;
    std::ranges::copy_if(rows, std::back_inserter(kept), keeps_all);
    for (Row& row : rows) {
        if (!row.refused.empty() || !row.peer.empty()) continue;
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
    return {std::move(rows), larger(setup)};
}

}  // namespace headroom::techniques
