#pragma once
// Compares two runs of an op's sample call: values and gradients on the host, within bounds derived from the growth of
// input errors. The runs may differ in context, layout and dtype.
//
//     const Values expected = run(cpu, op, sample, place_all(cpu, inputs, Dtype::f64, Layout::contiguous), seed);
//     const Scales scales = conditions(cpu, op, sample, inputs, expected, seed);
//     const Values actual = run(gpu, op, sample, place_all(gpu, inputs, Dtype::f16, Layout::strided), seed);
//     expect_close(actual.outputs, expected.outputs, terms(sample) * epsilon(Dtype::f32), "output", scales.outputs);
#include <string>
#include <vector>

#include <headroom/core/test/sample_calls.hpp>

namespace headroom::test {

using Arrays = std::vector<std::vector<double>>;

/// Values on the host; gradients of the floating inputs.
struct Values {
    Arrays outputs;
    Arrays gradients;
};

/// The outputs of a call, and its gradients under `projected`.
Values run(Context& context, const OpEntry& op, const ErasedSample& sample, const std::vector<Tensor>& inputs,
           const Seed& seed);

/// The factors by which relative errors grow on the way to each array.
struct Scales {
    std::vector<double> outputs;
    std::vector<double> gradients;
};

/// Measures how relative errors in the inputs and in dy grow, by injecting some. Where terms cancel, the growth exceeds
/// the array's largest magnitude, and no algorithm is more accurate. `expected`: the results for the same inputs in
/// f64.
Scales conditions(Context& context, const OpEntry& op, const ErasedSample& sample, const std::vector<HostInput>& inputs,
                  const Values& expected, const Seed& seed);

/// Checks that |a - b| is at most `relative` times the scale of the array: its largest magnitude, or the given scale.
/// Errors: Error that begins with `what` if it is more.
void expect_close(const Arrays& actual, const Arrays& expected, double relative, const std::string& what,
                  const std::vector<double>& scales = {});

/// A bound on the number of roundings in a sum of n terms with a few operations each.
double terms(const ErasedSample& sample);

/// Runs every accepted sample of the op in `dtype` and each layout on `context`, and compares with f64 on `reference`
/// from the same rounded inputs. Halves are computed in f32 and rounded when stored: once for an output. A gradient
/// also depends on stored arrays, dy and saved outputs; their rounding affects every gradient, even that of an input
/// with little effect. Errors: Error if they differ.
void expect_agreement(Context& context, Context& reference, const OpEntry& op, Dtype dtype,
                      const std::vector<Layout>& layouts, const Seed& seed);

}  // namespace headroom::test
