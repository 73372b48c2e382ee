#include <headroom/optim/clip.hpp>

#include <cmath>

#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/norm/norm.hpp>
#include <headroom/kernels/step_control/formulas.hpp>

namespace headroom {

void sum_of_squared_gradients(Parameters& parameters, const Array& result) {
    const Array gradients = parameters.gradients();
    const std::vector<ArenaRange> ranges = parameters.trained_ranges();
    Exec& exec = parameters.context().exec();
    if (ranges.empty()) exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, result.view()); });
    float beta = 0;
    for (std::size_t i = 0; i < ranges.size();) {
        Array part = gradients;
        part.geometry.offset += ranges[i].offset;
        std::int64_t end = ranges[i].offset;
        // Ranges that differ only in weight decay are one here.
        for (; i < ranges.size() && ranges[i].offset == end; ++i) end += ranges[i].count;
        const Shape shape{end - (part.geometry.offset - gradients.geometry.offset)};
        part.geometry.shape = shape;
        part.geometry.strides = contiguous_strides(shape);
        const Scratch scratch = exec.scratch(kernels::sum_of_squares_scratch(exec.stream(), part.view()));
        exec.launch(
            [&](auto& stream) { kernels::sum_of_squares(stream, part.view(), result.view(), beta, scratch.data()); });
        beta = 1;
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

}  // namespace headroom
