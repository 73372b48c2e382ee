// What the processes of one training must have in common: whatever decides its bits, or which exchanges they make.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/core/group.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/internal/description.hpp>
#include <headroom/training/session.hpp>
#include <headroom/version.hpp>

namespace headroom::training {

namespace {

using Json = nlohmann::json;
/// A name for people, and its value. In the order in which a difference is named: causes before what they change.
using Facts = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kNone = "none";
constexpr std::size_t kShown = 200;  ///< characters of a value

void add_fields(Facts& facts, const std::string& before, const Json& json) {
    if (json.empty()) return;
    const Json fields = json.flatten();
    for (const auto& [name, value] : fields.items()) facts.emplace_back(before + name.substr(1), value.dump());
}

Facts of_compute(const kernels::ComputeOptions& compute) {
    return {{"compute.tf32", fmt::to_string(compute.tf32)},
            {"compute.deterministic", fmt::to_string(compute.deterministic)},
            {"compute.own_kernels", fmt::to_string(compute.own_kernels)},
            {"compute.scratch_budget", fmt::to_string(compute.scratch_budget)},
            {"compute.graphs", fmt::to_string(compute.graphs)}};
}

Facts of_options(const TrainerOptions& options) {
    Facts facts;
    const auto add = [&](const char* name, const auto& value) {
        facts.emplace_back(options.spell(name, ""), fmt::to_string(value));
    };
    const auto add_file = [&](const char* name, const std::string& file) {
        add(name, file.empty() ? kNone : "a file");
    };
    add("budget", options.budget);  // by which the others are chosen
    add("plan", options.plan ? plan::plan_text(*options.plan) : kNone);
    add("batch", options.batch);
    add("accumulate", options.accumulate);
    add("autocast", std::string(options.autocast ? name(*options.autocast) : kNone));
    add("peak", options.schedule.peak);
    add("decay", static_cast<int>(options.schedule.decay));
    add("floor", options.schedule.floor);
    add("warmup_steps", options.schedule.warmup_steps);
    add("decay_steps", options.schedule.decay_steps);
    add("clip", options.clip);
    add("shard", std::string(name(options.shard)));
    add("average", options.average);
    add("recompute", options.recompute.empty() ? kNone : options.recompute);
    add("validate_every", options.validate_every);
    add("patience", options.patience);
    add_file("resume", options.resume);
    add_file("save", options.save);
    add("save_every", options.save_every);
    add_file("best", options.best);
    add("stop_after", options.stop_after);
    return facts;
}

/// Of an array's 32-bit words as integers, a million at a time: such a sum is exact, in whatever order it is added up.
std::vector<double> sums_of_bits(Context& context, const Array& values) {
    constexpr std::int64_t kTerms = std::int64_t{1} << 20;  // of up to 2^31: within the 53 bits of an f64
    Exec& exec = context.exec();
    exec.set_path(0);
    const std::int64_t words = values.numel() * static_cast<std::int64_t>(kernels::size_of(values.dtype)) / 4;
    const std::int64_t whole = words / kTerms, rest = words % kTerms;
    const Array sums = exec.empty({whole + 1}, Dtype::f64, Category::workspace);
    const auto add = [&](std::int64_t first, std::int64_t rows, std::int64_t terms) {
        const View bits = contiguous_view(values.view().as<std::int32_t>() + first * kTerms, Dtype::i32, {rows, terms});
        const View result = contiguous_view(sums.view().as<double>() + first, Dtype::f64, {rows, 1});
        exec.run<kernels::SumPlan>(bits, 1.0, result, 0.0f);
    };
    if (whole > 0) add(0, whole, kTerms);
    add(whole, 1, rest);
    return context.from_array(sums).to_vector<double>();
}

std::string shown(const std::string& value) { return value.size() <= kShown ? value : "another"; }

/// The first fact that two processes do not share.
[[noreturn]] void refuse(const Facts& first, const Facts& other, std::size_t rank) {
    const auto value_in = [](const Facts& facts, const std::string& name) {
        const auto found = std::ranges::find(facts, name, &Facts::value_type::first);
        return found == facts.end() ? std::string(kNone) : found->second;
    };
    Facts all = first;
    all.insert(all.end(), other.begin(), other.end());
    for (const auto& [name, value] : all) {
        const std::string one = value_in(first, name), two = value_in(other, name);
        if (one != two)
            throw Error(fmt::format("{}: process {} has {}, but process 0 has {}; all need the same flags and data",
                                    name, rank, shown(two), shown(one)));
    }
    throw Error(
        fmt::format("process {} has the parts of its model or its data in a different order than process 0", rank));
}

}  // namespace

/// Errors: Error on all ranks that names the first difference, if a rank trains something else than rank 0.
void Session::expect_same_everywhere() {
    Facts facts{{"version", version}};
    const auto add = [&](Facts more) { std::ranges::move(more, std::back_inserter(facts)); };
    add(of_options(options_));
    add({{options_.spell("steps", ""), fmt::to_string(steps_)},
         {options_.spell("seed", ""), fmt::to_string(seed_)},
         {"optimizer", optimizer_->description()}});
    add(of_compute(context_.profile().compute));
    facts.emplace_back("figures", fmt::format("{}", fmt::join(task_->figures(), ", ")));
    add_fields(facts, "", description_of(*task_));
    for (const Parameter& parameter : parameters_.all()) {
        facts.emplace_back("parameter " + parameter.path,
                           fmt::format("{} {}{}", name(parameter.tensor.dtype()), parameter.tensor.shape().to_string(),
                                       parameter.buffer    ? ", a buffer"
                                       : parameter.trained ? ""
                                                           : ", frozen"));
    }
    facts.emplace_back("steps done", fmt::to_string(steps_done_));
    for (const auto& [name, value] : task_->order().state_dict().values) facts.emplace_back("data/" + name, value);
    for (const auto& [name, value] : options_.values ? options_.values() : StateValues()) {
        const Json parsed = Json::parse(value, nullptr, false);
        if (parsed.is_structured())
            add_fields(facts, name + "/", parsed);
        else
            facts.emplace_back(name, value);
    }
    const std::string text = Json(facts).dump(-1, ' ', false, Json::error_handler_t::replace);
    const std::vector<std::string> all = all_gather(*group_, text);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all.front()) refuse(Json::parse(all.front()), Json::parse(all[rank]), rank);
    }
    expect_same_parameters();
}

/// By the sums of their bits, so that the last bit of one is a difference. Errors: Error on all ranks.
void Session::expect_same_parameters() {
    if (!group_) return;
    const std::vector<double> sums = sums_of_bits(context_, parameters_.values());
    const auto* const bytes = reinterpret_cast<const char*>(sums.data());
    const std::vector<std::string> all = all_gather(*group_, std::string(bytes, sums.size() * sizeof(double)));
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] == all.front()) continue;
        throw Error(
            fmt::format("after step {} the parameters of process {} differ from those of process 0: something sets or "
                        "updates them separately on each process (initial values, a hook)",
                        steps_done_, rank));
    }
}

}  // namespace headroom::training
