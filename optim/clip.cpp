#include <headroom/optim/clip.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/kernels/step_control/formulas.hpp>
#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>
#include <headroom/optim/internal/gradients.hpp>

namespace headroom::optim {

namespace {

/// By parts, of which each rank has its own; they are added up in one order.
void sum_over_parts(Parameters& parameters, const Array& result) {
    Context& context = parameters.context();
    Exec& exec = context.exec();
    const std::vector<GradientSegment>& segments = parameters.segments();
    const auto columns = static_cast<std::int64_t>(segments.size());
    const int ranks = parameters.shards(), rank = ranks > 1 ? context.group()->rank() : 0;
    const Array squares = exec.empty({Group::kParts * columns}, Dtype::f64, Category::workspace);
    exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, squares.view()); });
    std::vector<std::int64_t> begins;
    for (int part = 0; part <= Group::kParts; ++part) begins.push_back(part * columns);
    const std::vector<ShardRange> rows = shard_ranges(begins, ranks);
    const ShardRange& own = rows[static_cast<std::size_t>(rank)];
    for (std::int64_t i = own.first; i < own.first + own.count; ++i) {
        const GradientSegment& segment = segments[static_cast<std::size_t>(i % columns)];
        const auto number = static_cast<std::size_t>(i / columns);
        const std::int64_t begin = segment.parts[number], count = segment.parts[number + 1] - begin;
        if (count == 0) continue;
        const Array gradients = part(segment.own_gradients, begin - segment.own.first, count);
        exec.run<kernels::SumOfSquaresPlan>(gradients.view(), part(squares, i, 1).view(), 0.0f);
    }
    if (ranks > 1) all_gather(exec, *context.group(), squares, rows);
    exec.run<kernels::SumPlan>(squares.view(), 1.0, part(result, 0, 1).view(), 0.0f);
}

}  // namespace

void sum_of_squared_gradients(Parameters& parameters, const Array& result) {
    Exec& exec = parameters.context().exec();
    for (const GradientSegment& segment : parameters.segments()) check_gradients(parameters, segment, "gradient norm");
    if (parameters.shard() != Shard::none) return sum_over_parts(parameters, result);
    exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, result.view()); });
    for (const GradientSegment& segment : parameters.segments()) {
        exec.run<kernels::SumOfSquaresPlan>(segment.gradients.view(), result.view(), 1.0f);
    }
}

double gradient_norm(Parameters& parameters) {
    Context& context = parameters.context();
    context.exec().set_path(0);
    const Array squares = context.exec().empty({}, Dtype::f64, Category::workspace);
    sum_of_squared_gradients(parameters, squares);
    return std::sqrt(context.from_array(squares).item());
}

double clip_factor(double norm, double max_norm) { return kernels::clip_factor(norm, max_norm); }

}  // namespace headroom::optim
