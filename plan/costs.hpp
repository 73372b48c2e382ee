#pragma once
// The cost model: how long recorded ops take, from assumed rates or from measurements.
//
//     plan::Costs costs = plan::Costs::assumed(context.profile());
//     OpTimer timer(context);
//     const double step_seconds = timed([&] { train(context); });    // a step whose micro-batch records `program`
//     costs.measure({{program, 1, {{step_seconds, timer.take()}}}});
//     plan::write_costs("costs.json", costs, plan::Machine::of(context.profile()));
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/op_timer.hpp>
#include <headroom/core/recorded_program.hpp>

namespace headroom::plan {

/// The seconds that an op's passes take.
struct OpSeconds {
    double forward = 0;
    double replay = 0;                 ///< forward, run again during backward
    double backward = 0;               ///< 0 if it has no backward
    double backward_after_replay = 0;  ///< right after ops were replayed for it

    /// Seconds added by recomputation to one forward and one backward pass.
    double added(std::uint32_t replays, bool after_replay) const {
        return replays * replay + (after_replay ? backward_after_replay - backward : 0);
    }
};

/// A device's rates per second.
struct Rates {
    double operations = 0;       ///< floating-point operations of f32 and f64 products
    double half_operations = 0;  ///< of f16 and bf16 products
    double bytes = 0;            ///< bytes read or written
    double op_seconds = 0;       ///< minimum seconds of any op
};

/// The machine and build that measured the times.
struct Machine {
    std::string name;  ///< name of the processor or GPU
    int threads = 0;   ///< threads used; 0 for a GPU
    std::string build;

    /// The machine of a context with this profile, in this build.
    static Machine of(const Profile& profile);
};

struct TimedStep {
    double seconds = 0;        ///< for the whole step
    std::vector<OpTimes> ops;  ///< from `OpTimer::take`
};
/// Timed steps that run the same program.
struct TimedRun {
    RecordedProgram program;         ///< recorded by each micro-batch
    std::int64_t micro_batches = 1;  ///< per step
    std::vector<TimedStep> steps;
};

class Costs {
  public:
    explicit Costs(const Rates& rates) : rates_(rates) {}
    /// Assumed rates: an op takes the longer of its arithmetic and its memory traffic (Williams et al. 2009,
    /// "Roofline"). For a GPU, 60% of the arithmetic and 80% of the memory rate of its data sheet (`Profile::model`);
    /// for a CPU, 40 GFLOP/s per thread and 10 GB/s.
    static Costs assumed(const Profile& profile);

    /// Fits the model to measured runs. A measured op (same name, shapes, strides, dtypes) is predicted to take the
    /// mean of its times. An unmeasured op is scaled from the nearest measured op of that name, by the ratio of the two
    /// times that a formula gives. The formula adds a term for products, a term for memory traffic and a constant per
    /// op. The factors of these terms are fitted to all measured ops of the kind (name, dtypes, ranks, layout). The
    /// constant's factor is fitted only if the kind was measured with several batch sizes; it then accounts for
    /// weights, which a larger batch does not read more often. The nearest op is one of the same kind if there is one.
    /// The distance between two such ops is based on the logarithms of the ratios of their dimensions, and leading
    /// dimensions (samples) count least. If no op of the kind was measured, the ratio is that of assumed rates. The
    /// time of a step outside of ops is fitted as a time per parameter byte plus a time per op of its micro-batches.
    /// Errors: Error if a run's number of op times differs from its program's number of ops.
    void measure(const std::vector<TimedRun>& runs);

    /// The seconds of each op.
    std::vector<OpSeconds> of(const RecordedProgram& program) const;
    /// Seconds of a step of `micro_batches`, including recomputation.
    double step_seconds(const RecordedProgram& program, std::int64_t micro_batches) const;
    /// The part of `step_seconds` outside of ops.
    double outside_seconds(const RecordedProgram& program, std::int64_t micro_batches) const;
    bool measured() const { return !kinds_.empty(); }
    /// Mean relative error of the predicted step times in the run with the largest error; 0 if nothing was measured.
    /// Plans that differ by less are equally fast as far as the model can tell.
    double spread() const { return spread_; }

  private:
    friend void write_costs(const std::filesystem::path& path, const Costs& costs, const Machine& machine);
    friend Costs read_costs(const std::filesystem::path& path, const Profile& profile);

    /// An op's work, independent of the machine.
    struct Work {
        Operations operations;
        double bytes = 0;
        bool half = false;  ///< its products are in f16 or bf16
    };
    struct Kind {
        Work work;
        OpSeconds seconds;
    };
    using Parts = std::array<double, 3>;  ///< seconds for products, for memory traffic, and per op
    struct Passes {
        Parts forward, backward;
    };
    static Work work_of(const RecordedProgram& program, const RecordedOp& op);
    Passes parts(const Work& work) const;  ///< from assumed rates
    OpSeconds by_rates(const Work& work) const;
    /// Fits `shares_` to `kinds_`.
    void fit();
    OpSeconds of(const RecordedProgram& program, const RecordedOp& op) const;

    Rates rates_;
    std::map<std::string, std::map<std::string, Kind>> kinds_;  ///< by name, then by shapes, strides and dtypes
    std::map<std::string, std::map<std::string, Passes>>
        shares_;  ///< shares of parts by name, then by form without sizes
    /// Seconds of a step outside of ops: per byte of parameters, and per op of a micro-batch.
    double outside_per_byte_ = 0, outside_per_op_ = 0;
    double spread_ = 0;
};

/// Writes readable JSON. Errors: FileError.
void write_costs(const std::filesystem::path& path, const Costs& costs, const Machine& machine);
/// Errors: FileError if the file can't be read, is not a cost file, or was measured by another version, on another
/// machine or with a different number of threads than the profile's. A simulated GPU accepts costs of any machine.
Costs read_costs(const std::filesystem::path& path, const Profile& profile);

}  // namespace headroom::plan
