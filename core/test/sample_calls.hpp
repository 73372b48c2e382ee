#pragma once
// The sample calls of an op, made concrete: values drawn from a seed, put into memory in various layouts and dtypes,
// and the call itself. Tests of properties of every op use it, for Headroom's ops and for a user's (op_checks.hpp).
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

/// The seed of random inputs: 1, or HEADROOM_TEST_SEED of the environment, where `random` is a new number each time.
struct Seed {
    Seed();
    std::uint64_t value;
    double projection_error = 0.0;  ///< relative error of projections, up or down as `error_draw` says
    std::uint64_t error_draw = 0;
};

/// One input on the host: its description, and its elements in row-major order (none if it is left out).
struct HostInput {
    SampleInput what;
    std::vector<double> values;
};

/// Where an input's elements lie. `permuted` is a value without gaps whose axis 1 stands innermost, or 0 of two:
/// channels-last. `transposed` is a view of a value whose first and last axis changed places. Between the elements of
/// `strided` lie others that no kernel may read: NaN, or an index that is far outside.
enum class Layout : std::uint8_t { contiguous, permuted, transposed, strided };

std::vector<ErasedSample> accepted(const OpEntry& op);
std::vector<ErasedSample> refused(const OpEntry& op);

/// The text to print when a check fails.
std::string describe(const OpEntry& op, const ErasedSample& sample, const Seed& seed);

bool is_floating(const SampleInput& input);
/// True for a floating input for which the op has a gradient.
bool has_gradient(const SampleInput& input);

std::vector<HostInput> draw(const ErasedSample& sample, const Seed& seed);
/// Standard normal values for the projection of output `i`.
std::vector<double> draw_projection(std::int64_t elements, std::size_t i, const Seed& seed);

/// A leaf; floating inputs have the dtype and, if `differentiable`, require a gradient where the op has one; indices
/// are i64 or i32.
Tensor place(Context& context, const HostInput& input, Dtype dtype, Layout layout, bool differentiable = true,
             Dtype index = Dtype::i64);
std::vector<Tensor> place_all(Context& context, const std::vector<HostInput>& inputs, Dtype dtype, Layout layout,
                              bool differentiable = true);

std::vector<Tensor> call(Context& context, const OpEntry& op, const ErasedSample& sample, std::vector<Tensor> inputs);

/// The sum of all elements of all floating outputs, each times a random number; undefined if there is nothing to
/// differentiate.
Tensor projected(Context& context, const std::vector<Tensor>& outputs, const Seed& seed);

/// The gradients of `projected` by the floating inputs; empty vectors for the others.
std::vector<std::vector<double>> gradients(Context& context, const OpEntry& op, const ErasedSample& sample,
                                           const std::vector<Tensor>& inputs, const Seed& seed);
/// The same where the call was made.
std::vector<std::vector<double>> gradients(Context& context, std::vector<Tensor> outputs,
                                           const std::vector<Tensor>& inputs, const Seed& seed);

double largest(const std::vector<double>& values);

}  // namespace headroom::test
