#include <headroom/dist/world.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/dist/internal/mpi_plugin.hpp>
#include <headroom/dist/internal/processors.hpp>
#include <headroom/dist/internal/sockets.hpp>
#include <headroom/dist/internal/watch.hpp>
#include <headroom/dist/nccl.hpp>
#include <headroom/dist/tcp.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/cuda_uuid.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/progress.hpp>
#include <headroom/memory/shared_library.hpp>

namespace headroom::dist {

/// MPI, from its start to its end.
struct MpiJob {
    const headroom_mpi_table* mpi;
    int exceptions;  ///< that were on their way at the start

    /// An error that is on its way must reach `abort` first: MPI's end waits for the others.
    ~MpiJob() {
        if (std::uncaught_exceptions() != exceptions) return;
        const memory::WaitScope waits;
        mpi->finish();
    }
};

namespace {

class MpiGroup final : public Group {
  public:
    MpiGroup(const headroom_mpi_table* mpi, int rank, int ranks) : Group(rank, ranks), mpi_(mpi) {}

  private:
    void do_all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                       std::span<const Extent> receives) override {
        const auto extents = [](std::span<const Extent> ours) {
            std::vector<headroom_mpi_extent> theirs;
            for (const Extent& extent : ours) theirs.push_back({extent.offset, extent.bytes});
            return theirs;
        };
        const char* const why = mpi_->exchange(reinterpret_cast<const unsigned char*>(send), extents(sends).data(),
                                               reinterpret_cast<unsigned char*>(receive), extents(receives).data());
        if (why) throw Error(fmt::format("rank {}: MPI failed: {}", rank(), why));
    }

    const headroom_mpi_table* mpi_;
};

std::string_view variable(const char* name) {
    const char* const value = std::getenv(name);
    return value ? value : "";
}

constexpr int kMostRanks = 1 << 20;

/// Of the environment. Errors: Error unless it is a number from `least` to `most`.
int number(const char* name, int least, int most, int otherwise) {
    const std::string_view text = variable(name);
    if (text.empty()) return otherwise;
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
        throw Error(fmt::format("{} is \"{}\", which is not a number from {} to {}", name, text, least, most));
    return value;
}

/// The variable by which an MPI says that this process is one of several; null if none does.
const char* job_variable() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
        if (const std::string_view ranks = variable(name); !ranks.empty()) return ranks == "1" ? nullptr : name;
    }
    return variable("PMIX_RANK").empty() ? nullptr : "PMIX_RANK";  // which does not say how many there are
}

const headroom_mpi_table* open_mpi(const char* told_by) {
    constexpr const char* advice = "install an MPI with its headers (scripts/setup does), and build again";
    std::error_code none;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", none);
    const std::vector<std::string> files = memory::library_files(
        "HEADROOM_MPI",
        {HEADROOM_MPI_BUILT, program.parent_path() / ".." / HEADROOM_MPI_FROM_PROGRAM, HEADROOM_MPI_INSTALLED});
    try {
        const memory::SharedLibrary library("Headroom's plug-in for MPI", files, advice);
        decltype(&::headroom_mpi) table = nullptr;
        library.find(table, "headroom_mpi");
        if (table()->version != kMpiPluginVersion)
            throw DeviceError(fmt::format("it belongs to another version of Headroom; {}", advice));
        return table();
    } catch (const DeviceError& error) {
        throw Error(fmt::format("{} says that this is one process of several: {}", told_by, error.what()));
    }
}

/// "4 ranks", as far as the environment says how many.
std::string ranks_told(const char* told_by) {
    const std::string_view ranks = variable(told_by);
    return std::string_view(told_by) == "PMIX_RANK" ? "the job's ranks" : fmt::format("{} ranks", ranks);
}

/// Seconds; 0 means for ever.
double seconds(const char* name, double told) {
    if (!(told >= 0)) throw Error(fmt::format("{} must be at least 0 seconds, got {:g}", name, told));
    return told == 0 ? 1e9 : told;
}

/// Errors: Error, on all ranks, if two of them have a GPU of the same UUID.
void refuse_one_gpu_twice(Group& hosts, const std::string& uuid) {
    const std::vector<std::string> all = all_gather(hosts, uuid);
    for (std::size_t q = 0; q < all.size(); ++q) {
        const std::size_t r = static_cast<std::size_t>(std::find(all.begin(), all.end(), all[q]) - all.begin());
        if (r < q) {
            throw Error(
                fmt::format("ranks {} and {} see the same GPU, {}, but need one each: start fewer processes, or show "
                            "each its own (CUDA_VISIBLE_DEVICES)",
                            r, q, all[q]));
        }
    }
}

}  // namespace

int World::told_rank() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
        if (const std::string_view rank = variable(name); job_variable() && !rank.empty())
            return std::atoi(std::string(rank).c_str());
    }
    return variable("WORLD_SIZE").empty() ? 0 : std::atoi(std::string(variable("RANK")).c_str());
}

World World::join(const JoinOptions& options) {
    World world;
    world.options_ = {.join_timeout = seconds("join_timeout", options.join_timeout),
                      .rank_timeout = seconds("rank_timeout", options.rank_timeout)};
    const char* const told_by = job_variable();
    if (!told_by) {
        world.read_launcher();
        return world;
    }
    const headroom_mpi_table* const mpi = open_mpi(told_by);
    const JoinDeadline deadline(told_rank(), ranks_told(told_by), world.options_.join_timeout);
    int rank = 0, ranks = 1, local_ranks = 1;
    if (const char* why = mpi->start(&rank, &ranks, &world.local_rank_, &local_ranks))
        throw Error(fmt::format("MPI can't be started: {}", why));
    world.job_ = std::make_shared<const MpiJob>(mpi, std::uncaught_exceptions());
    if (ranks == 1) {
        world.read_launcher();  // which such a job may have started
        return world;
    }
    world.rank_ = rank;
    world.ranks_ = ranks;
    world.local_ranks_ = local_ranks;
    world.group_ = std::make_shared<MpiGroup>(mpi, rank, ranks);
    world.share_processors();
    world.watch(local_ranks == ranks ? "127.0.0.1" : "");
    return world;
}

/// All ranks call it.
void World::watch(const std::string& first_host) const {
    std::string why_not;
    watch_ = Watch::begin(*group_, first_host, options_.rank_timeout, why_not);
    if (rank_ == 0 && !why_not.empty())
        fmt::print(stderr, "ranks that hang will not be noticed, since not all ranks reach rank 0: {}\n", why_not);
}

World::~World() = default;

void World::share_processors() const {
    const Processors own = Processors::allowed();
    const int processors = Processors::of_machine(), allowed = own.count();
    const int share = std::max(1, processors / local_ranks_);
    // Until the others tell theirs, those of a machine share all of it.
    const int sharing = group_ ? own.sharing(*group_) : allowed < processors ? 1 : local_ranks_;
    threads_ = std::max(1, allowed / sharing);
    if (threads_ < share) {
        remark_ = fmt::format("rank {} may run on {} of {} processors and uses {} thread{}; {} leaves them {}", rank_,
                              allowed, processors, threads_, threads_ == 1 ? "" : "s",
                              address_.empty() ? "mpirun --bind-to none" : "a launcher that binds no processes", share);
    }
}

/// As PyTorch's "Environment variable initialization" has them, which its torchrun sets.
void World::read_launcher() {
    const std::string_view rank = variable("RANK"), ranks = variable("WORLD_SIZE");
    if (rank.empty() != ranks.empty() && ranks != "1") {
        const auto [set, missing] = ranks.empty() ? std::pair{"RANK", "WORLD_SIZE"} : std::pair{"WORLD_SIZE", "RANK"};
        throw Error(fmt::format("{} is set, but {} is not; set both or neither", set, missing));
    }
    if (ranks.empty() || ranks == "1") return;
    ranks_ = number("WORLD_SIZE", 1, kMostRanks, 0);
    rank_ = number("RANK", 0, ranks_ - 1, 0);
    local_rank_ = number("LOCAL_RANK", 0, ranks_ - 1, rank_);
    // Where a rank of this machine is told of, and not how many there are, there are at least those before it.
    local_ranks_ =
        number("LOCAL_WORLD_SIZE", local_rank_ + 1, ranks_, variable("LOCAL_RANK").empty() ? ranks_ : local_rank_ + 1);
    const std::string_view host = variable("MASTER_ADDR");
    if (host.empty() || variable("MASTER_PORT").empty()) {
        throw Error(
            "RANK and WORLD_SIZE are set, but MASTER_ADDR and MASTER_PORT, the address of the first process, are not; "
            "set all four, or start with mpirun");
    }
    // torchrun itself listens at this port, unless each process has been told to.
    const int taken = variable("TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0;
    const std::string port = std::to_string(number("MASTER_PORT", 1, 65535 - taken, 0) + taken);
    address_ = host.starts_with('[') ? fmt::format("{}:{}", host, port) : Address{std::string(host), port}.text();
    share_processors();
}

/// What a launcher without an MPI has started joins when it has to say something.
void World::meet() const {
    if (ranks_ == 1 || group_) return;
    group_ = hosts_over_tcp({rank_, ranks_, address_}, options_.join_timeout);
    share_processors();
    watch(Address::parse(address_).host);
}

Context World::context(ContextOptions options) const {
    meet();
    if (options.threads == 0) options.threads = threads_;
    options.group = group_;
    return Context::cpu(std::move(options));
}

Context World::cuda(ContextOptions options) const {
    const int gpus = kernels::cuda_device_count();
    if (gpus > 1 && local_ranks_ > gpus) {
        throw Error(fmt::format("{} processes on this machine need a GPU each, but it has {}; start with mpirun -np {}",
                                local_ranks_, gpus, gpus));
    }
    const int own = gpus == 1 ? 0 : local_rank_;  // the only one, which a launcher may have chosen for this rank
    if (ranks_ > 1 && gpus > 0) {
        meet();
        refuse_one_gpu_twice(*group_, kernels::cuda_uuid(own));
        options.group = watch_->look_after(over_nccl(group_, {.patience = options_.join_timeout}));
    }
    return Context::cuda(own, std::move(options));
}

void World::abort(int exit_code) const {
    if (ranks_ == 1) return;
    if (job_ && address_.empty()) job_->mpi->abort(exit_code);
    std::fflush(nullptr);
    std::_Exit(exit_code);  // an orderly end would wait for the others, which the launcher ends
}

}  // namespace headroom::dist
