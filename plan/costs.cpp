#include <headroom/plan/costs.hpp>

#include <algorithm>

namespace headroom::plan {

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

std::vector<OpSeconds> Costs::of(const RecordedProgram& program) const {
    std::vector<OpSeconds> result;
    result.reserve(program.ops.size());
    for (const RecordedOp& op : program.ops) {
        double bytes = 0;
        for (const std::uint32_t value : op.outputs) bytes += static_cast<double>(program.values[value].bytes);
        Dtype dtype = Dtype::f32;
        for (const RecordedInput& input : op.inputs) {
            if (input.value == RecordedValue::kNone) continue;
            const RecordedValue& value = program.values[input.value];
            bytes += static_cast<double>(input.geometry.shape.numel()) * static_cast<double>(size_of(value.dtype));
            if (&input == op.inputs.data()) dtype = value.dtype;
        }
        const double rate = is_half(dtype) ? rates_.half_operations : rates_.operations;
        const auto seconds = [&](double operations, double traffic) {
            return rates_.op_seconds + std::max(operations / rate, traffic / rates_.bytes);
        };
        // Backward reads what forward read and wrote, and writes a gradient for what forward read.
        result.push_back({seconds(op.operations.forward, bytes),
                          op.differentiable ? seconds(op.operations.backward, 2 * bytes) : 0});
    }
    return result;
}

}  // namespace headroom::plan
