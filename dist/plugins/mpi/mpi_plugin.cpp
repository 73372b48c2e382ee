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
    int given = 0;
    if (const char* why = reason(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given))) return why;
    if (given < MPI_THREAD_FUNNELED) return "this MPI does not let a program have threads";
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

const char* exchange(const unsigned char* send, const headroom_mpi_extent* sends, unsigned char* receive,
                     const headroom_mpi_extent* receives) {
    std::vector<MPI_Request> requests;
    std::vector<int> expected;  // bytes by request; below 0: sends
    for (int step = 1; step < rank_count; ++step) {
        const int to = (own_rank + step) % rank_count, from = (own_rank + rank_count - step) % rank_count;
        int error = in_messages(receives[from], [&](std::size_t offset, int bytes) {
            expected.push_back(bytes);
            return MPI_Irecv(receive + offset, bytes, MPI_BYTE, from, 0, ranks_of_job, &requests.emplace_back());
        });
        if (const char* why = reason(error)) return why;
        error = in_messages(sends[to], [&](std::size_t offset, int bytes) {
            expected.push_back(-1);
            return MPI_Isend(send + offset, bytes, MPI_BYTE, to, 0, ranks_of_job, &requests.emplace_back());
        });
        if (const char* why = reason(error)) return why;
    }
    const headroom_mpi_extent &given = sends[own_rank], &taken = receives[own_rank];
    if (given.bytes != taken.bytes) return "a rank sends itself another number of bytes than it receives";
    if (given.bytes > 0 && send + given.offset != receive + taken.offset)
        std::memmove(receive + taken.offset, send + given.offset, given.bytes);
    std::vector<MPI_Status> statuses(requests.size());
    const auto count = static_cast<int>(requests.size());
    if (const int error = MPI_Waitall(count, requests.data(), statuses.data()); error == MPI_ERR_IN_STATUS) {
        for (const MPI_Status& status : statuses) {
            if (status.MPI_ERROR == MPI_SUCCESS || status.MPI_ERROR == MPI_ERR_PENDING) continue;
            return reason(status.MPI_ERROR);
        }
    } else if (const char* why = reason(error)) {
        return why;
    }
    for (std::size_t i = 0; i < statuses.size(); ++i) {
        int bytes = 0;
        if (expected[i] < 0) continue;
        MPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
        if (bytes != expected[i]) return "a rank sent another number of bytes than was expected of it";
    }
    return nullptr;
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
