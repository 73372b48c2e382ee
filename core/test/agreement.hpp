#pragma once
// What two runs of an op's sample call are compared by: values and gradients on the host, and bounds that follow from
// how errors in the inputs grow. The runs may be of different contexts, layouts and dtypes.
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

/// On the host; gradients are those of floating inputs.
struct Values {
    Arrays outputs;
    Arrays gradients;
};

/// The outputs of a call, and its gradients by `projected`.
Values run(Context& context, const OpEntry& op, const ErasedSample& sample, const std::vector<Tensor>& inputs,
           const Seed& seed);

/// What relative errors are multiplied by on their way to each array.
struct Scales {
    std::vector<double> outputs;
    std::vector<double> gradients;
};

/// Of relative errors in the inputs and in dy: found by making some. Where terms cancel, this is more than the array's
/// largest magnitude, and no algorithm is more accurate. `expected`: of the same inputs in f64.
Scales conditions(Context& context, const OpEntry& op, const ErasedSample& sample, const std::vector<HostInput>& inputs,
                  const Values& expected, const Seed& seed);

/// |a - b| is at most `relative` times the scale of the array: its largest magnitude, or what is given. Errors: Error
/// that begins with `what` if it is not.
void expect_close(const Arrays& actual, const Arrays& expected, double relative, const std::string& what,
                  const std::vector<double>& scales = {});

/// A sum of n terms, and a few operations with each, may be off by that many roundings.
double terms(const ErasedSample& sample);

/// Runs every accepted sample of the op in `dtype` and each layout on `context` and compares with f64 on `reference`,
/// from the same rounded inputs. Halves are computed in f32 and rounded where they are stored: once for an output; for
/// a gradient, what it is computed from was stored, too: dy, and outputs that were saved, whose rounding enters every
/// gradient, that of an input that by itself has little effect as well. Errors: Error where they differ.
void expect_agreement(Context& context, Context& reference, const OpEntry& op, Dtype dtype,
                      const std::vector<Layout>& layouts, const Seed& seed);

}  // namespace headroom::test
