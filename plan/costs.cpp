#include <headroom/plan/costs.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
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

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

double parameter_bytes(const RecordedProgram& program) {
    double bytes = 0;
    for (const RecordedValue& value : program.values) {
        if (value.is_parameter) bytes += static_cast<double>(value.bytes);
    }
    return bytes;
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
    if (profile.cuda) return {profile.memory.name, 0, version};
    return {processor_name(), profile.threads, version};
}

Costs Costs::assumed(const Profile& profile) {
    if (profile.cuda) {
        const double products = profile.compute.tf32 ? 494e12 : 67e12;
        return Costs({.operations = 0.6 * products,
                      .half_operations = 0.6 * 989e12,
                      .bytes = 0.8 * 3.35e12,
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

OpSeconds Costs::by_rates(const Work& work) const {
    const double rate = work.half ? rates_.half_operations : rates_.operations;
    const auto seconds = [&](double operations, double traffic) {
        return rates_.op_seconds + std::max(operations / rate, traffic / rates_.bytes);
    };
    // Backward reads what forward read and wrote, and writes a gradient for what forward read.
    return {seconds(work.operations.forward, work.bytes), seconds(work.operations.backward, 2 * work.bytes)};
}

OpSeconds Costs::of(const RecordedProgram& program, const RecordedOp& op) const {
    const Work work = work_of(program, op);
    const OpSeconds own = by_rates(work);
    const auto named = kinds_.find(op.name);
    if (named == kinds_.end()) return own;
    const auto same = named->second.find(op_form(program, op));
    if (same != named->second.end()) return same->second.seconds;
    const Kind* nearest = nullptr;
    double least = 0;
    for (const auto& [form, kind] : named->second) {
        const double distance = std::abs(std::log(by_rates(kind.work).forward / own.forward)) +
                                (kind.work.half == work.half ? 0 : std::log(2));
        if (nearest && distance >= least) continue;
        nearest = &kind;
        least = distance;
    }
    const OpSeconds its = by_rates(nearest->work);
    return {nearest->seconds.forward * own.forward / its.forward,
            nearest->seconds.backward * own.backward / its.backward};
}

std::vector<OpSeconds> Costs::of(const RecordedProgram& program) const {
    std::vector<OpSeconds> result;
    result.reserve(program.ops.size());
    for (const RecordedOp& op : program.ops) {
        result.push_back(of(program, op));
        if (!op.differentiable) result.back().backward = 0;
    }
    return result;
}

double Costs::outside_seconds(const RecordedProgram& program) const {
    return outside_per_byte_ * parameter_bytes(program);
}

double Costs::step_seconds(const RecordedProgram& program, std::int64_t micro_batches) const {
    const std::vector<OpSeconds> ops = of(program);
    double seconds = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
        seconds += (1 + program.ops[i].replays) * ops[i].forward + ops[i].backward;
    }
    return outside_seconds(program) + static_cast<double>(micro_batches) * seconds;
}

void Costs::measure(const RecordedProgram& program, const std::vector<OpTimes>& ops) {
    if (ops.size() != program.ops.size()) {
        throw Error(fmt::format("costs: {} ops were measured, and the program has {}", ops.size(), program.ops.size()));
    }
    std::map<std::pair<std::string, std::string>, OpTimes> times;
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const RecordedOp& op = program.ops[i];
        OpTimes& all = times[{op.name, op_form(program, op)}];
        all.forward.insert(all.forward.end(), ops[i].forward.begin(), ops[i].forward.end());
        all.forward.insert(all.forward.end(), ops[i].replays.begin(), ops[i].replays.end());
        all.backward.insert(all.backward.end(), ops[i].backward.begin(), ops[i].backward.end());
        kinds_[op.name][op_form(program, op)].work = work_of(program, op);
    }
    for (const auto& [kind, all] : times) {
        kinds_[kind.first][kind.second].seconds = {median(all.forward), median(all.backward)};
    }
}

void Costs::measure_outside(const RecordedProgram& program, double seconds) {
    const double bytes = parameter_bytes(program);
    outside_per_byte_ = bytes > 0 ? seconds / bytes : 0;
}

}  // namespace headroom::plan
