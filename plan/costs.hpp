#pragma once
// How long recorded ops take. Nothing is measured here: what is known of a device are rates, which are assumed, and an
// op takes as long as its operations or its traffic of memory, whichever is longer (Williams et al. 2009, "Roofline").
//
//     const Costs costs = Costs::assumed(context.profile());
//     double seconds = 0;
//     for (const OpSeconds& op : costs.of(rehearsal.program)) seconds += op.forward + op.backward;
#include <string>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/recorded_program.hpp>

namespace headroom::plan {

/// Of an op's passes.
struct OpSeconds {
    double forward = 0;
    double backward = 0;  ///< 0 if it runs none
};

/// What a device does in a second.
struct Rates {
    double operations = 0;       ///< of products of f32 and f64
    double half_operations = 0;  ///< of f16 and bf16
    double bytes = 0;            ///< read or written
    double op_seconds = 0;       ///< that any op takes at least
};

class Costs {
  public:
    explicit Costs(const Rates& rates) : rates_(rates) {}
    /// On a GPU the rates of an H100 by its data sheet (NVIDIA, "H100 Tensor Core GPU", SXM5), products at 60% and
    /// memory at 80% of them; on a CPU 40 GFLOP/s for each thread and 10 GB/s. They serve to compare plans.
    static Costs assumed(const Profile& profile);

    /// For each op.
    std::vector<OpSeconds> of(const RecordedProgram& program) const;

  private:
    Rates rates_;
};

}  // namespace headroom::plan
