#pragma once
// The processes of a job that train one model together, on CPUs or with a GPU each. They are started by `mpirun` (or
// `srun` with an MPI that it supports), or by a launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, such
// as torchrun. A single process behaves as if `World` were absent: neither MPI nor NCCL is loaded.
//
//     dist::World world = dist::World::join();
//     Context context = world.context({.seed = 1337});      // with its share of the machine's processors
//     if (world.rank() == 0) fmt::print("{} processes\n", world.ranks());
//
// `GradientAccumulator`, `DataLoader` and `training::Trainer` document how they use several ranks.
#include <memory>
#include <string>

#include <headroom/core/context.hpp>
#include <headroom/core/group.hpp>

namespace headroom::dist {

class Watch;

/// How long ranks wait for others, in seconds; 0: forever.
struct JoinOptions {
    double join_timeout = 300;  ///< until all have joined
    double rank_timeout = 600;  ///< while another rank makes no progress
};

class World {
  public:
    /// Joins the job described by the environment; a world of one process if there is none. A thread of each process
    /// then watches the ranks. If a rank has ended, or makes no progress while the others wait `rank_timeout` seconds
    /// for it, a line on standard error names it and all processes end with status 1. Progress is an op, an exchange, a
    /// batch or a piece of a file by the thread that joined; code that does none of these for that long must call
    /// `memory::step_forward` now and then. If ranks do not join within `join_timeout` seconds, the process ends in the
    /// same way. If some ranks can't reach rank 0 over TCP, a line on standard error says that the ranks are not
    /// watched. Processes started by a launcher without MPI join over TCP when `context` or `cuda` is called. Errors:
    /// Error if the job can't be joined: no MPI in this build, an error of MPI, a second join in a process that MPI has
    /// started, or incomplete launcher variables; Error for a negative timeout.
    static World join(const JoinOptions& options = {});
    ~World();
    World(World&& other) noexcept = default;
    World& operator=(World&&) = delete;

    /// The rank in the environment, also before or without `join`; 0 if there is none.
    static int told_rank();
    int rank() const { return rank_; }
    int ranks() const { return ranks_; }
    /// The rank among those on this machine, which is the number of its GPU.
    int local_rank() const { return local_rank_; }
    /// All processes; null with one process and, without MPI, before `context` or `cuda`.
    const std::shared_ptr<Group>& group() const { return group_; }
    /// A CPU context for this rank. If `options.threads` is 0, it uses its share of the processors that it may run on,
    /// divided among the ranks on this machine. Errors: as `Context::cpu` and `hosts_over_tcp`.
    Context context(ContextOptions options = {}) const;
    /// A context on this rank's GPU, with NCCL between ranks. The ranks of a machine take its GPUs in order, or each
    /// takes the only one that it sees. Errors: as `Context::cuda`, `over_nccl` and `hosts_over_tcp`; Error if this
    /// machine has more ranks than GPUs, or if two ranks see the same GPU.
    Context cuda(ContextOptions options = {}) const;
    /// The number of threads that `ContextOptions::threads` = 0 means here. `remark` is a text if the affinity mask
    /// leaves fewer than the rank's share, else empty.
    int threads() const { return threads_; }
    const std::string& remark() const { return remark_; }

    /// Ends all processes after an error that only this rank had; this process returns `exit_code`. Without MPI it ends
    /// only this process, and the launcher ends the others. Returns if there is only one process.
    void abort(int exit_code) const;

  private:
    World() = default;

    void read_launcher();
    void share_processors() const;
    void meet() const;
    void watch(const std::string& first_host) const;

    int rank_ = 0, ranks_ = 1;
    std::string address_;  ///< where ranks meet without MPI; empty with MPI
    mutable std::shared_ptr<Group> group_;
    mutable std::shared_ptr<Watch> watch_;  ///< lives until MPI has finished, which waits for all ranks
    std::shared_ptr<const struct MpiJob> job_;
    JoinOptions options_;
    mutable int threads_ = 0;
    int local_rank_ = 0, local_ranks_ = 1;  ///< on this machine
    mutable std::string remark_;
};

}  // namespace headroom::dist
