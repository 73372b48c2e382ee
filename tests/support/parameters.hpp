#pragma once
// All elements of a model's parameters, or of their gradients, one parameter after the other as they were registered:
// for tests that compare whole states. And an optimizer's state copied from one training to another.
//
//     EXPECT_EQ(test::values_of(recomputed.parameters), test::values_of(kept.parameters));
#include <cstddef>
#include <vector>

#include <headroom/core/parameters.hpp>
#include <headroom/core/transfer.hpp>

namespace headroom::test {

inline std::vector<double> read(Context& context, const Array& array) {
    std::vector<double> values(static_cast<std::size_t>(array.numel()));
    const View out = contiguous_view(values.data(), Dtype::f64, array.shape());
    download(context.exec(), array, out);
    return values;
}

inline void write(Context& context, std::vector<double> values, const Array& array) {
    const View in = contiguous_view(values.data(), Dtype::f64, array.shape());
    upload(context.exec(), in, array);
}

inline std::vector<double> values_of(Parameters& parameters) {
    std::vector<double> all;
    for (const Parameter& parameter : parameters.all()) {
        const std::vector<double> values = read(parameters.context(), parameter.tensor.array());
        all.insert(all.end(), values.begin(), values.end());
    }
    return all;
}

/// Of trained parameters; zeros where no gradient arrived.
inline std::vector<double> gradients_of(Parameters& parameters) {
    parameters.fill_unreached();
    std::vector<double> all;
    for (const Parameter& parameter : parameters.all()) {
        if (!parameter.trained) continue;
        const std::vector<double> gradient = read(parameters.context(), parameter.tensor.value()->grad);
        all.insert(all.end(), gradient.begin(), gradient.end());
    }
    return all;
}

inline void set_values(Parameters& parameters, const std::vector<double>& all) {
    auto next = all.begin();
    for (const Parameter& parameter : parameters.all()) {
        const auto end = next + parameter.tensor.numel();
        write(parameters.context(), {next, end}, parameter.tensor.array());
        next = end;
    }
}

/// Gives all trained parameters one number as their gradient.
inline void set_gradients(Parameters& parameters, double number) {
    parameters.fill_unreached();
    for (const Parameter& parameter : parameters.all()) {
        if (!parameter.trained) continue;
        const auto count = static_cast<std::size_t>(parameter.tensor.numel());
        write(parameters.context(), std::vector<double>(count, number), parameter.tensor.value()->grad);
    }
}

/// The values and the optimizer's state of the same model in another context.
template <class Optimizer>
void copy_training(Parameters& from, Optimizer& from_optimizer, Parameters& to, Optimizer& to_optimizer) {
    set_values(to, values_of(from));
    const StateDict source = from_optimizer.state_dict(), target = to_optimizer.state_dict();
    for (std::size_t i = 0; i < source.arrays.size(); ++i) {
        write(to.context(), read(from.context(), source.arrays[i].array), target.arrays[i].array);
    }
    to_optimizer.restore(source.values);
}

}  // namespace headroom::test
