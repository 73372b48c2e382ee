#pragma once
// How long recorded ops take: by rates that are assumed, or as measured on a machine.
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

/// Of an op's passes.
struct OpSeconds {
    double forward = 0;
    double replay = 0;                 ///< once more, in backward
    double backward = 0;               ///< 0 if it runs none
    double backward_after_replay = 0;  ///< where ops have just run again for it

    /// What a plan adds to forward and backward that run once.
    double added(std::uint32_t replays, bool after_replay) const {
        return replays * replay + (after_replay ? backward_after_replay - backward : 0);
    }
};

/// What a device does in a second.
struct Rates {
    double operations = 0;       ///< of products of f32 and f64
    double half_operations = 0;  ///< of f16 and bf16
    double bytes = 0;            ///< read or written
    double op_seconds = 0;       ///< that any op takes at least
};

/// Where times are from.
struct Machine {
    std::string name;  ///< of the processor, or of the GPU
    int threads = 0;   ///< of the processor; 0: a GPU
    std::string build;

    /// Of a context with this profile, in this build.
    static Machine of(const Profile& profile);
};

struct TimedStep {
    double seconds = 0;        ///< all of it
    std::vector<OpTimes> ops;  ///< as `OpTimer::take`
};
/// Steps that are alike.
struct TimedRun {
    RecordedProgram program;         ///< that each micro-batch records
    std::int64_t micro_batches = 1;  ///< in a step
    std::vector<TimedStep> steps;
};

class Costs {
  public:
    explicit Costs(const Rates& rates) : rates_(rates) {}
    /// An op takes as long as its operations or its traffic of memory, whichever is longer (Williams et al. 2009,
    /// "Roofline"). On a GPU the rates are those of its data sheet (`Profile::model`), products at 60% and memory at
    /// 80% of them; on a CPU 40 GFLOP/s for each thread and 10 GB/s.
    static Costs assumed(const Profile& profile);

    /// From now on, an op like one of those that ran (name, shapes, strides, dtypes) takes the mean of their times. One
    /// that is like none takes as long as the nearest in shape of its name, times the ratio of what the two should
    /// take: the sum of a share for products, one for traffic and one for any op, fitted to all that ran of the kind
    /// (name, dtypes, ranks, layout); the last one by rates, unless the kind ran with several batches. So weights,
    /// which a larger batch reads no oftener, count once. Nearest in shape: of the same kind, if there is one; then by
    /// the logarithms of the ratios of their dimensions, of which the first ones, of samples, count least. Where no op
    /// of the kind ran, the ratio is by rates. What a step takes beside its ops is so much for each byte of parameters,
    /// and so much for each op of its micro-batches, as fits the runs best. Errors: Error if times are of another
    /// number of ops than their program has.
    void measure(const std::vector<TimedRun>& runs);

    /// For each op.
    std::vector<OpSeconds> of(const RecordedProgram& program) const;
    /// Of a step of so many micro-batches, with what backward runs again.
    double step_seconds(const RecordedProgram& program, std::int64_t micro_batches) const;
    /// What `step_seconds` has beside ops.
    double outside_seconds(const RecordedProgram& program, std::int64_t micro_batches) const;
    bool measured() const { return !kinds_.empty(); }
    /// Share of a step's time by which measured steps differ from what is predicted of them, in the mean, of the run in
    /// which it is most; 0 where nothing was measured. Plans that differ by less are equally fast, as far as is known.
    double spread() const { return spread_; }

  private:
    friend void write_costs(const std::filesystem::path& path, const Costs& costs, const Machine& machine);
    friend Costs read_costs(const std::filesystem::path& path, const Profile& profile);

    /// What an op does, whatever the machine.
    struct Work {
        Operations operations;
        double bytes = 0;
        bool half = false;  ///< its products are of f16 or bf16
    };
    struct Kind {
        Work work;
        OpSeconds seconds;
    };
    using Parts = std::array<double, 3>;  ///< seconds for products, for traffic, and for any op
    struct Passes {
        Parts forward, backward;
    };
    static Work work_of(const RecordedProgram& program, const RecordedOp& op);
    Passes parts(const Work& work) const;  ///< by rates
    OpSeconds by_rates(const Work& work) const;
    /// Fits `shares_` to `kinds_`.
    void fit();
    OpSeconds of(const RecordedProgram& program, const RecordedOp& op) const;

    Rates rates_;
    std::map<std::string, std::map<std::string, Kind>> kinds_;     ///< by name, then by shapes, strides and dtypes
    std::map<std::string, std::map<std::string, Passes>> shares_;  ///< of parts; by name, then by a form without sizes
    /// Of a step's seconds beside its ops: for a byte of parameters, and for an op of a micro-batch.
    double outside_per_byte_ = 0, outside_per_op_ = 0;
    double spread_ = 0;
};

/// As JSON that people can read. Errors: FileError.
void write_costs(const std::filesystem::path& path, const Costs& costs, const Machine& machine);
/// Errors: FileError if it can't be read, is no such file, or was measured on another machine or with other threads
/// than the profile's, or by another version; a GPU that is only simulated may stand for any.
Costs read_costs(const std::filesystem::path& path, const Profile& profile);

}  // namespace headroom::plan
