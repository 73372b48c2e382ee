#include <headroom/optim/clip.hpp>

#include <cmath>

#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/step_control/formulas.hpp>
#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::optim {

void sum_of_squared_gradients(Parameters& parameters, const Array& result) {
    Exec& exec = parameters.context().exec();
    exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, result.view()); });
    for (const GradientSegment& segment : parameters.segments()) {
        if (!segment.gradients.defined()) {
            throw Error("gradient norm: a trained parameter has no gradient; call fill_unreached() before");
        }
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
