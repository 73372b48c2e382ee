#pragma once
// The processes of a job, which train one model together, on processors or with a GPU each: started by `mpirun` (or
// `srun`, with an MPI that it knows), or by a launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as
// torchrun does. Alone, nothing of MPI or NCCL is opened, and all is as without a world.
//
//     dist::World world = dist::World::join();
//     Context context = world.context({.seed = 1337});      // with its share of the machine's processors
//     if (world.rank() == 0) fmt::print("{} processes\n", world.ranks());
//
// What `GradientAccumulator`, `DataLoader` and `training::Trainer` make of several ranks is theirs to say.
#include <memory>
#include <string>

#include <headroom/core/context.hpp>
#include <headroom/core/group.hpp>

namespace headroom::dist {

class Watch;

/// How long ranks wait for others, in seconds; 0: without end.
struct JoinOptions {
    double join_timeout = 300;  ///< until all have come
    double rank_timeout = 600;  ///< while another one makes no progress
};

class World {
  public:
    /// Joins the job that the environment tells of; alone if it tells of none, or of one process. From then on a thread
    /// of each process watches the ranks: when one has ended, or the others have waited for `rank_timeout` seconds for
    /// one that makes no progress, a line on standard error names it, and all processes end with status 1. Progress is
    /// an op, an exchange, a batch or a piece of a file, by the thread that joined; code that does none of these for so
    /// long calls `memory::step_forward` now and then. Errors: Error in a line if there is a job that can't be joined:
    /// no MPI in this build, MPI's own reason, a second join of a process that MPI has started, or variables of a
    /// launcher that are not complete; for a time below 0.
    /// When ranks do not come within `join_timeout` seconds, the process ends in the same way. Where not all ranks
    /// reach rank 0 over TCP, a line on standard error says that nothing watches them. What a launcher without an MPI
    /// has started joins in `context` or `cuda`, over TCP.
    static World join(const JoinOptions& options = {});
    ~World();
    World(World&& other) noexcept = default;
    World& operator=(World&&) = delete;

    /// The rank that the environment tells of, also before or without `join`; 0 if it tells of none.
    static int told_rank();
    int rank() const { return rank_; }
    int ranks() const { return ranks_; }
    /// Among those of this machine: the number of its GPU.
    int local_rank() const { return local_rank_; }
    /// All processes; null if this is the only one, and without an MPI before `context` and `cuda`.
    const std::shared_ptr<Group>& group() const { return group_; }
    /// On the CPU, as one of the ranks. `options.threads` of 0: of the processors that this process may run on, its
    /// share among those of this machine. Errors: as `Context::cpu` and `hosts_over_tcp`.
    Context context(ContextOptions options = {}) const;
    /// On the GPU of this rank: those of a machine have its GPUs in their order, or each the only one that it sees, and
    /// NCCL between them. Errors: as `Context::cuda`, `over_nccl` and `hosts_over_tcp`; Error if this machine has more
    /// ranks than GPUs, or two ranks see one GPU.
    Context cuda(ContextOptions options = {}) const;
    /// What 0 threads stand for; a remark for people if a mask leaves less than the share, or else empty.
    int threads() const { return threads_; }
    const std::string& remark() const { return remark_; }

    /// For an error that the other ranks know nothing of: ends the processes of all, this one with `exit_code`.
    /// Returns if this is the only one. Without an MPI it ends this one, and the launcher the others.
    void abort(int exit_code) const;

  private:
    World() = default;

    void read_launcher();
    void share_processors() const;
    void meet() const;
    void watch(const std::string& first_host) const;

    int rank_ = 0, ranks_ = 1;
    std::string address_;  ///< where ranks without an MPI meet; empty with one
    mutable std::shared_ptr<Group> group_;
    mutable std::shared_ptr<Watch> watch_;  ///< until MPI has ended, which waits for all
    std::shared_ptr<const struct MpiJob> job_;
    JoinOptions options_;
    mutable int threads_ = 0;
    int local_rank_ = 0, local_ranks_ = 1;  ///< among those of this machine
    mutable std::string remark_;
};

}  // namespace headroom::dist
