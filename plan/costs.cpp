#include <headroom/plan/costs.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/plan/internal/fitted_shares.hpp>
#include <headroom/plan/internal/form.hpp>
#include <headroom/version.hpp>

namespace headroom::plan {

namespace {

/// "f32 [8, 4]/[4, 1], none -> f32 [8]/[1]".
std::string op_form(const RecordedProgram& program, const RecordedOp& op) {
    std::string form;
    for (const RecordedInput& input : op.inputs) {
        if (!form.empty()) form += ", ";
        const bool there = input.value != RecordedValue::kNone;
        form += there ? form_of(program.values[input.value].dtype, input.geometry) : "none";
    }
    form += " ->";
    for (const std::uint32_t output : op.outputs) {
        const RecordedValue& value = program.values[output];
        form += fmt::format(" {}", form_of(value.dtype, value.geometry));
    }
    return form;
}

/// A form's sizes, and what it is without them: dtypes, ranks, and how strides fall.
struct FormOfSizes {
    std::string kind;
    /// Their logarithms. The first one of a value, which mostly is of samples, counts an eighth: an op does the same
    /// for another batch.
    std::vector<double> sizes;
    std::vector<double> of_a_sample;  ///< without the first ones
};

FormOfSizes parsed(std::string_view form) {
    FormOfSizes result;
    bool inside = false, of_strides = false;
    double before = 0;
    for (std::size_t i = 0; i < form.size();) {
        if (form[i] == '[') of_strides = i > 0 && form[i - 1] == '/';
        if (form[i] == '[' || form[i] == ']') inside = form[i] == '[';
        std::int64_t number = 0;
        const auto [end, error] = std::from_chars(form.data() + i, form.data() + form.size(), number);
        if (!inside || error != std::errc()) {
            result.kind += form[i++];
            continue;
        }
        const auto size = static_cast<double>(number);
        const bool first = form[i - 1] == '[';
        if (!of_strides) {
            result.sizes.push_back(std::log(std::max(size, 1.0)) / (first ? 8 : 1));
            if (!first) result.of_a_sample.push_back(size);
            result.kind += '#';
        } else {
            result.kind += number == 0 ? '0' : first || size <= before ? '>' : '<';
        }
        before = size;
        i = static_cast<std::size_t>(end - form.data());
    }
    return result;
}

using Samples = std::vector<double> OpTimes::*;
constexpr Samples kSamples[] = {&OpTimes::forward, &OpTimes::replays, &OpTimes::backward,
                                &OpTimes::backward_after_replay};

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

double mean(const std::vector<double>& values, double otherwise) {
    return values.empty() ? otherwise : sum(values) / static_cast<double>(values.size());
}

double parameter_bytes(const RecordedProgram& program) {
    double bytes = 0;
    for (const RecordedValue& value : program.values) {
        if (value.is_parameter) bytes += static_cast<double>(value.bytes);
    }
    return bytes;
}

double ops_of_step(const RecordedProgram& program, std::int64_t micro_batches) {
    return static_cast<double>(program.ops.size()) * static_cast<double>(micro_batches);
}

void check(const TimedRun& run) {
    if (run.steps.empty()) throw Error("costs: a run has no steps");
    for (const TimedStep& step : run.steps) {
        if (step.ops.size() == run.program.ops.size()) continue;
        throw Error(fmt::format("costs: {} ops were measured, but the program has {}", step.ops.size(),
                                run.program.ops.size()));
    }
}

/// The mean of what steps take beside their ops.
double outside_of(const TimedRun& run) {
    double seconds = 0;
    for (const TimedStep& step : run.steps) {
        seconds += step.seconds;
        for (const OpTimes& op : step.ops) {
            for (const Samples samples : kSamples) seconds -= sum(op.*samples);
        }
    }
    return std::max(seconds, 0.0) / static_cast<double>(run.steps.size());
}

/// Seconds for a byte of parameters and for an op, not negative, with the least sum of squared errors.
std::pair<double, double> fitted_outside(const std::vector<TimedRun>& runs) {
    double bb = 0, bn = 0, nn = 0, bs = 0, ns = 0;
    for (const TimedRun& run : runs) {
        const double bytes = parameter_bytes(run.program), ops = ops_of_step(run.program, run.micro_batches);
        bb += bytes * bytes;
        bn += bytes * ops;
        nn += ops * ops;
        const double seconds = outside_of(run);
        bs += bytes * seconds;
        ns += ops * seconds;
    }
    const double determinant = bb * nn - bn * bn;
    if (determinant > 1e-6 * bb * nn) {
        const double per_byte = (bs * nn - ns * bn) / determinant, per_op = (ns * bb - bs * bn) / determinant;
        if (per_byte >= 0 && per_op >= 0) return {per_byte, per_op};
    }
    // All runs are alike, or one of the two counts for nothing.
    return bb > 0 ? std::pair(bs / bb, 0.0) : std::pair(0.0, nn > 0 ? ns / nn : 0.0);
}

/// By Linux.
std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("model name") && line.find(": ") != std::string::npos)
            return line.substr(line.find(": ") + 2);
    }
    return "a processor";
}

}  // namespace

Machine Machine::of(const Profile& profile) {
    if (profile.cuda()) return {profile.model.name, 0, version};
    return {processor_name(), profile.threads, version};
}

Costs Costs::assumed(const Profile& profile) {
    if (profile.cuda()) {
        const kernels::GpuRates& best = profile.model.rates;
        return Costs({.operations = 0.6 * (profile.compute.tf32 ? best.tf32 : best.f32),
                      .half_operations = 0.6 * best.half,
                      .bytes = 0.8 * best.memory,
                      .op_seconds = 3e-6});
    }
    const double products = 40e9 * std::max(profile.threads, 1);
    return Costs({.operations = products, .half_operations = products, .bytes = 10e9, .op_seconds = 1e-6});
}

Costs::Work Costs::work_of(const RecordedProgram& program, const RecordedOp& op) {
    Work work{.operations = op.operations};
    for (const std::uint32_t value : op.outputs) work.bytes += static_cast<double>(program.values[value].bytes);
    for (const RecordedInput& input : op.inputs) {
        if (input.value == RecordedValue::kNone) continue;
        const Dtype dtype = program.values[input.value].dtype;
        work.bytes += static_cast<double>(input.geometry.shape.numel()) * static_cast<double>(size_of(dtype));
        if (&input == op.inputs.data()) work.half = is_half(dtype);
    }
    return work;
}

Costs::Passes Costs::parts(const Work& work) const {
    const double rate = work.half ? rates_.half_operations : rates_.operations;
    // Backward reads what forward read and wrote, and writes a gradient for what forward read.
    return {.forward = {work.operations.forward / rate, work.bytes / rates_.bytes, rates_.op_seconds},
            .backward = {work.operations.backward / rate, 2 * work.bytes / rates_.bytes, rates_.op_seconds}};
}

OpSeconds Costs::by_rates(const Work& work) const {
    const auto seconds = [](const Parts& parts) { return parts[2] + std::max(parts[0], parts[1]); };
    const Passes passes = parts(work);
    const double forward = seconds(passes.forward), backward = seconds(passes.backward);
    return {forward, forward, backward, backward};
}

void Costs::fit() {
    struct Measured {
        std::vector<std::pair<Parts, double>> forward, backward;
        std::set<std::vector<double>> samples;  ///< sizes of one
    };
    shares_.clear();
    for (const auto& [name, forms] : kinds_) {
        std::map<std::string, Measured> measured;
        for (const auto& [form, kind] : forms) {
            const Passes by_rates = parts(kind.work);
            FormOfSizes sizes = parsed(form);
            auto& [forward, backward, samples] = measured[sizes.kind];
            forward.emplace_back(by_rates.forward, kind.seconds.forward);
            backward.emplace_back(by_rates.backward, kind.seconds.backward);
            samples.insert(std::move(sizes.of_a_sample));
        }
        for (const auto& [kind, its] : measured) {
            const bool several_batches = its.samples.size() < its.forward.size();
            shares_[name][kind] = {fitted_shares(its.forward, several_batches),
                                   fitted_shares(its.backward, several_batches)};
        }
    }
}

OpSeconds Costs::of(const RecordedProgram& program, const RecordedOp& op) const {
    const Work work = work_of(program, op);
    const OpSeconds own = by_rates(work);
    const auto named = kinds_.find(op.name);
    if (named == kinds_.end()) return own;
    const auto same = named->second.find(op_form(program, op));
    if (same != named->second.end()) return same->second.seconds;
    constexpr double kOtherKind = 1e6;  // further than sizes can be
    const FormOfSizes form = parsed(op_form(program, op));
    const auto distance = [&](const auto& named_kind) {
        const auto& [its_form, kind] = named_kind;
        const FormOfSizes its = parsed(its_form);
        if (its.kind != form.kind) return kOtherKind + std::abs(std::log(by_rates(kind.work).forward / own.forward));
        return std::transform_reduce(form.sizes.begin(), form.sizes.end(), its.sizes.begin(), 0.0, std::plus(),
                                     [](double a, double b) { return std::abs(a - b); });
    };
    const auto nearest = std::ranges::min_element(named->second, {}, distance);
    const OpSeconds its = by_rates(nearest->second.work);
    double forward = own.forward / its.forward, backward = own.backward / its.backward;
    const auto& all_shares = shares_.at(op.name);
    if (const auto shares = all_shares.find(form.kind); shares != all_shares.end()) {
        const Passes here = parts(work), there = parts(nearest->second.work);
        const auto ratio = [](const Parts& share, const Parts& own, const Parts& its) {
            return std::inner_product(share.begin(), share.end(), own.begin(), 0.0) /
                   std::inner_product(share.begin(), share.end(), its.begin(), 0.0);
        };
        forward = ratio(shares->second.forward, here.forward, there.forward);
        backward = ratio(shares->second.backward, here.backward, there.backward);
    }
    const OpSeconds& seconds = nearest->second.seconds;
    return {seconds.forward * forward, seconds.replay * forward, seconds.backward * backward,
            seconds.backward_after_replay * backward};
}

std::vector<OpSeconds> Costs::of(const RecordedProgram& program) const {
    std::vector<OpSeconds> result;
    result.reserve(program.ops.size());
    for (const RecordedOp& op : program.ops) {
        result.push_back(of(program, op));
        if (!op.differentiable) result.back().backward = result.back().backward_after_replay = 0;
    }
    return result;
}

double Costs::outside_seconds(const RecordedProgram& program, std::int64_t micro_batches) const {
    return outside_per_byte_ * parameter_bytes(program) + outside_per_op_ * ops_of_step(program, micro_batches);
}

double Costs::step_seconds(const RecordedProgram& program, std::int64_t micro_batches) const {
    const std::vector<OpSeconds> ops = of(program);
    double seconds = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const RecordedOp& op = program.ops[i];
        seconds += ops[i].forward + ops[i].added(op.replays, op.after_replay);
        seconds += ops[i].backward;
    }
    return outside_seconds(program, micro_batches) + static_cast<double>(micro_batches) * seconds;
}

void Costs::measure(const std::vector<TimedRun>& runs) {
    std::map<std::pair<std::string, std::string>, OpTimes> times;
    for (const TimedRun& run : runs) check(run);
    for (const TimedRun& run : runs) {
        for (std::size_t i = 0; i < run.program.ops.size(); ++i) {
            const RecordedOp& op = run.program.ops[i];
            const std::string form = op_form(run.program, op);
            kinds_[op.name][form].work = work_of(run.program, op);
            OpTimes& all = times[{op.name, form}];
            for (const TimedStep& step : run.steps) {
                for (const Samples samples : kSamples) {
                    (all.*samples)
                        .insert((all.*samples).end(), (step.ops[i].*samples).begin(), (step.ops[i].*samples).end());
                }
            }
        }
    }
    for (const auto& [kind, all] : times) {
        const double forward = mean(all.forward, 0), backward = mean(all.backward, mean(all.backward_after_replay, 0));
        kinds_[kind.first][kind.second].seconds = {forward, mean(all.replays, forward), backward,
                                                   mean(all.backward_after_replay, backward)};
    }
    fit();
    std::tie(outside_per_byte_, outside_per_op_) = fitted_outside(runs);
    spread_ = 0;
    for (const TimedRun& run : runs) {
        const double predicted = step_seconds(run.program, run.micro_batches);
        double off = 0;
        for (const TimedStep& step : run.steps) off += std::abs(step.seconds - predicted);
        if (predicted > 0) spread_ = std::max(spread_, off / predicted / static_cast<double>(run.steps.size()));
    }
}

}  // namespace headroom::plan
