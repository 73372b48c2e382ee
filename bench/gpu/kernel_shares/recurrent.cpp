// A layer of an LSTM, step by step: the state's product and the step behind it, small kernels that follow each other.
#include <fmt/format.h>

#include <headroom/bench/gpu/kernel_shares/bench.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/recurrent/lstm.hpp>

namespace headroom::shares {

using namespace kernels;

void recurrent(Bench& bench, const Sizes& sizes, Dtype dtype) {
    const std::int64_t batch = sizes.sequences, units = sizes.units;
    const View gates = bench.array(dtype, {batch, 4 * units}), hidden = bench.array(Dtype::f32, {batch, 4 * units}),
               c = bench.array(Dtype::f32, {batch, units}), h = bench.array(dtype, {batch, units}),
               y = bench.array(dtype, {batch, units}), dy = bench.array(dtype, {batch, units}),
               dh = bench.array(Dtype::f32, {batch, units}), dc = bench.array(Dtype::f32, {batch, units}),
               weight = bench.array(dtype, {4 * units, units});
    CudaStream& stream = bench.stream();
    const LstmStep forward{.gates = gates, .hidden = hidden, .before = c, .c = c, .h = h, .y = y};
    const LstmStepGradient backward{.gates = gates, .before = c, .c = c, .dy = dy, .dh = dh, .dc = dc};
    const auto product = planned<MatmulPlan>(bench, Matmul{.a = h, .b = transposed(weight), .c = hidden});
    const auto product_gradient = planned<MatmulPlan>(bench, Matmul{.a = gates, .b = weight, .c = dh, .beta = 1});
    const double operations = 2.0 * static_cast<double>(batch * units * 4 * units),
                 step_bytes = 2 * bytes_of(gates) + bytes_of(hidden, c, c, h, y),
                 gradient_bytes = 2 * bytes_of(gates, dh, dc) + bytes_of(c, c, dy),
                 product_bytes = bytes_of(h, weight, hidden), product_gradient_bytes = bytes_of(gates, weight, dh, dh);
    const auto steps = static_cast<double>(sizes.steps);
    const auto times = [&](auto work) {
        return [&sizes, work] {
            for (std::int64_t i = 0; i < sizes.steps; ++i) work();
        };
    };
    const std::string what = fmt::format(" [{}, {}] {}", batch, units, name(dtype));
    bench.measure("lstm_step" + what, step_bytes, 0, [&] { lstm_step(stream, forward); });
    bench.measure("lstm_step gradient" + what, gradient_bytes, 0, [&] { lstm_step_gradient(stream, backward); });
    bench.measure("product of an lstm_step" + what, product_bytes, operations, product);
    bench.measure(fmt::format("{} lstm_steps with products{}", sizes.steps, what), steps * (step_bytes + product_bytes),
                  steps * operations, times([&] {
                      product();
                      lstm_step(stream, forward);
                  }));
    bench.measure(fmt::format("{} lstm_step gradients with products{}", sizes.steps, what),
                  steps * (gradient_bytes + product_gradient_bytes), steps * operations, times([&] {
                      lstm_step_gradient(stream, backward);
                      product_gradient();
                  }));
    bench.forget();
}

}  // namespace headroom::shares
