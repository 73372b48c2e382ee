// The plug-in for the MPI that is installed: dist/internal/mpi_plugin.hpp. It moves bytes between pairs of ranks.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <mpi.h>

#include <headroom/dist/internal/mpi_plugin.hpp>

namespace {

/// The ranks of the job, apart from messages of a program that uses MPI itself.
MPI_Comm ranks_of_job = MPI_COMM_NULL;
int own_rank = 0, rank_count = 1;
std::string failure;

/// Null, or what an error of MPI means.
const char* reason(int error) {
    if (error == MPI_SUCCESS) return nullptr;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(error, text, &length);
    failure.assign(text, static_cast<std::size_t>(length));
    return failure.c_str();
}

const char* start(int* rank, int* ranks, int* local_rank, int* local_ranks) {
    int given = 0, runs = 0;
    MPI_Initialized(&runs);
    if (runs) return "it was started in this process before, and can be started only once";
    if (const char* why = reason(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given))) return why;
    if (given < MPI_THREAD_FUNNELED) return "this MPI does not support programs with threads";
    if (const char* why = reason(MPI_Comm_dup(MPI_COMM_WORLD, &ranks_of_job))) return why;
    MPI_Comm_set_errhandler(ranks_of_job, MPI_ERRORS_RETURN);
    MPI_Comm_rank(ranks_of_job, &own_rank);
    MPI_Comm_size(ranks_of_job, &rank_count);
    MPI_Comm machine = MPI_COMM_NULL;
    if (const char* why = reason(MPI_Comm_split_type(ranks_of_job, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine)))
        return why;
    MPI_Comm_rank(machine, local_rank);
    MPI_Comm_size(machine, local_ranks);
    MPI_Comm_free(&machine);
    *rank = own_rank;
    *ranks = rank_count;
    return nullptr;
}

/// MPI counts in int: a longer message is several, which arrive in the order in which they were sent.
constexpr std::size_t kMessageBytes = std::size_t{1} << 30;

template <class Post>
int in_messages(const headroom_mpi_extent& extent, const Post& post) {
    for (std::size_t done = 0; done < extent.bytes; done += kMessageBytes) {
        const auto bytes = static_cast<int>(std::min(kMessageBytes, extent.bytes - done));
        if (const int error = post(extent.offset + done, bytes)) return error;
    }
    return MPI_SUCCESS;
}

/// Nothing is on its way before both ends of each message agree on its size: what MPI has begun can't be taken back,
/// and would come into memory that is given back behind an error.
const char* check_sizes(const headroom_mpi_extent* sends, const headroom_mpi_extent* receives) {
    static_assert(sizeof(std::size_t) == sizeof(unsigned long));
    const auto count = static_cast<std::size_t>(rank_count);
    std::vector<std::size_t> sent(count), arrives(count);
    std::transform(sends, sends + count, sent.begin(), [](const headroom_mpi_extent& one) { return one.bytes; });
    if (const char* why =
            reason(MPI_Alltoall(sent.data(), 1, MPI_UNSIGNED_LONG, arrives.data(), 1, MPI_UNSIGNED_LONG, ranks_of_job)))
        return why;
    for (std::size_t from = 0; from < count; ++from) {
        if (arrives[from] == receives[from].bytes) continue;
        failure = "rank " + std::to_string(from) + " sends " + std::to_string(arrives[from]) + " bytes where " +
                  std::to_string(receives[from].bytes) + " are expected: do all ranks do the same, in the same order?";
        return failure.c_str();
    }
    return nullptr;
}

const char* exchange(const unsigned char* send, const headroom_mpi_extent* sends, unsigned char* receive,
                     const headroom_mpi_extent* receives) {
    if (const char* why = check_sizes(sends, receives)) return why;
    std::vector<MPI_Request> requests;
    for (int step = 1; step < rank_count; ++step) {
        const int to = (own_rank + step) % rank_count, from = (own_rank + rank_count - step) % rank_count;
        int error = in_messages(receives[from], [&](std::size_t offset, int bytes) {
            return MPI_Irecv(receive + offset, bytes, MPI_BYTE, from, 0, ranks_of_job, &requests.emplace_back());
        });
        if (const char* why = reason(error)) return why;
        error = in_messages(sends[to], [&](std::size_t offset, int bytes) {
            return MPI_Isend(send + offset, bytes, MPI_BYTE, to, 0, ranks_of_job, &requests.emplace_back());
        });
        if (const char* why = reason(error)) return why;
    }
    const headroom_mpi_extent &given = sends[own_rank], &taken = receives[own_rank];
    if (given.bytes > 0 && send + given.offset != receive + taken.offset)
        std::memmove(receive + taken.offset, send + given.offset, given.bytes);
    return reason(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
}

void finish() {
    MPI_Comm_free(&ranks_of_job);
    MPI_Finalize();
}

void end_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

}  // namespace

extern "C" const headroom_mpi_table* headroom_mpi() {
    static const headroom_mpi_table table{headroom::dist::kMpiPluginVersion, start, exchange, finish, end_all};
    return &table;
}
