#pragma once
// Checks one op against the rules that hold for every op. Headroom's tests call it for each built-in op; call it for
// your own. All checks run on the op's sample calls, with inputs drawn from a seed (the environment variable
// HEADROOM_TEST_SEED, else 1), in memory that holds NaN until it is written.
//
//     int main() { test::check_op<Softsign>(); }                           // throws Error if a check fails
//     test::check_op<Softsign>({.dtypes = {Dtype::f32, Dtype::f64}});      // an op without support for halves
//
// The op's kernels must support f64: finite differences in f32 are too imprecise.
#include <vector>

#include <headroom/core/test/sample_calls.hpp>

namespace headroom::test {

struct OpChecks {
    std::vector<Dtype> dtypes = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64};
    std::vector<Layout> layouts = {Layout::contiguous, Layout::permuted, Layout::transposed, Layout::strided};
    Seed seed = {};
};

/// Gradients match finite differences (see gradcheck). They accumulate over uses of an input, also if one tensor is
/// passed as two inputs, and stay the same if the op may overwrite its inputs.
void check_gradients(const OpEntry& op, const Seed& seed = {});
/// Values and gradients match those of contiguous f64, in every dtype and layout. Outputs are without gaps, and
/// gradients have the geometry of their values.
void check_layouts(const OpEntry& op, const OpChecks& checks = {});
/// In a recomputed region, gradients and outputs have the same bits as when everything is kept.
void check_replay(const OpEntry& op, const OpChecks& checks = {});
/// A rehearsal takes the same memory, byte for byte, and nothing is held once the op's results are gone.
void check_rehearsal(const OpEntry& op, const OpChecks& checks = {});
/// Samples marked as rejected are refused with a one-line message that begins with the op's name, and leave nothing
/// behind.
void check_refusals(const OpEntry& op, const Seed& seed = {});

/// All of these. Errors: Error, in one line, for the first check that fails.
void check_op(const OpEntry& op, const OpChecks& checks = {});
template <Operator Op>
void check_op(const OpChecks& checks = {}) {
    check_op(op_entry<Op>(), checks);
}

}  // namespace headroom::test
