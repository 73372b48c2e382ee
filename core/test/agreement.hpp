#pragma once
// Compares two runs of an op's sample call: values and gradients on the host, within bounds that follow from the growth
// of errors in the inputs. The runs may differ in context, layout and dtype.
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

/// Values on the host; gradients of floating inputs.
struct Values {
    Arrays outputs;
    Arrays gradients;
};

/// The outputs of a call, and its gradients by `projected`.
Values run(Context& context, const OpEntry& op, const ErasedSample& sample, const std::vector<Tensor>& inputs,
           const Seed& seed);

/// The factors by which relative errors grow on their way to each array.
struct Scales {
    std::vector<double> outputs;
    std::vector<double> gradients;
};

/// The growth of relative errors in the inputs and in dy, found by making some. Where terms cancel, it exceeds the
/// array's largest magnitude, and no algorithm is more accurate. `expected`: the results for the same inputs in f64.
Scales conditions(Context& context, const OpEntry& op, const ErasedSample& sample, const std::vector<HostInput>& inputs,
                  const Values& expected, const Seed& seed);

/// Checks that |a - b| is at most `relative` times the scale of the array: its largest magnitude, or the scale that is
/// given. Errors: Error that begins with `what` if not.
void expect_close(const Arrays& actual, const Arrays& expected, double relative, const std::string& what,
                  const std::vector<double>& scales = {});

/// The number of roundings by which a sum of n terms, with a few operations for each, may be off.
double terms(const ErasedSample& sample);

/// Runs every accepted sample of the op in `dtype` and each layout on `context` and compares with f64 on `reference`,
/// from the same rounded inputs. Halves are computed in f32 and rounded where they are stored: once for an output; a
/// gradient is computed from stored arrays, too: dy and saved outputs. Their rounding enters every gradient, even of an
/// input with little effect. Errors: Error where they differ.
void expect_agreement(Context& context, Context& reference, const OpEntry& op, Dtype dtype,
                      const std::vector<Layout>& layouts, const Seed& seed);

}  // namespace headroom::test
