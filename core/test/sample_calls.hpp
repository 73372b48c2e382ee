#pragma once
// Turns the sample calls of an op into real ones: draws values from a seed, places them in various layouts and dtypes,
// and calls the op. The tests that cover every op use it, for built-in ops and for users' own (op_checks.hpp).
//
//     const OpEntry op = op_entry<Softsign>();
//     const Seed seed;
//     for (const ErasedSample& sample : accepted(op)) {
//         SCOPED_TRACE(describe(op, sample, seed));
//         const auto inputs = place_all(context, draw(sample, seed), Dtype::f64, Layout::contiguous);
//         const std::vector<Tensor> outputs = call(context, op, sample, inputs);
//     }
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/core/apply.hpp>
#include <headroom/core/context.hpp>

namespace headroom::test {

/// The seed of random inputs: 1, or the environment variable HEADROOM_TEST_SEED; `random` gives a new seed each time.
struct Seed {
    Seed();
    std::uint64_t value;
    double projection_error = 0.0;  ///< relative error of projections; `error_draw` selects the signs
    std::uint64_t error_draw = 0;
};

/// One input on the host: its description, and its elements in row-major order (none if it is left out).
struct HostInput {
    SampleInput what;
    std::vector<double> values;
};

/// The memory layout of an input. `permuted` is a value without gaps whose axis 1 (or axis 0 of two) is innermost:
/// channels-last. `transposed` is a view of a value with its first and last axes swapped. `strided` has other elements
/// in between, which no kernel may read: NaN, or indices far out of range.
enum class Layout : std::uint8_t { contiguous, permuted, transposed, strided };

std::vector<ErasedSample> accepted(const OpEntry& op);
std::vector<ErasedSample> refused(const OpEntry& op);

/// The text to print when a check fails.
std::string describe(const OpEntry& op, const ErasedSample& sample, const Seed& seed);

bool is_floating(const SampleInput& input);
/// True for a floating input that the op has a gradient for.
bool has_gradient(const SampleInput& input);

std::vector<HostInput> draw(const ErasedSample& sample, const Seed& seed);
/// Standard normal values for the projection of output `i`.
std::vector<double> draw_projection(std::int64_t elements, std::size_t i, const Seed& seed);

/// A leaf. Floating inputs have the dtype and, if `differentiable`, require a gradient where the op has one; indices
/// are i64 or i32.
Tensor place(Context& context, const HostInput& input, Dtype dtype, Layout layout, bool differentiable = true,
             Dtype index = Dtype::i64);
std::vector<Tensor> place_all(Context& context, const std::vector<HostInput>& inputs, Dtype dtype, Layout layout,
                              bool differentiable = true);

std::vector<Tensor> call(Context& context, const OpEntry& op, const ErasedSample& sample, std::vector<Tensor> inputs);

/// The sum of all elements of all floating outputs, each times a random number; undefined if there is nothing to
/// differentiate.
Tensor projected(Context& context, const std::vector<Tensor>& outputs, const Seed& seed);

/// The gradients of `projected` by the floating inputs; empty vectors for the other inputs.
std::vector<std::vector<double>> gradients(Context& context, const OpEntry& op, const ErasedSample& sample,
                                           const std::vector<Tensor>& inputs, const Seed& seed);
/// The same for a call that was already made.
std::vector<std::vector<double>> gradients(Context& context, std::vector<Tensor> outputs,
                                           const std::vector<Tensor>& inputs, const Seed& seed);

double largest(const std::vector<double>& values);

}  // namespace headroom::test
