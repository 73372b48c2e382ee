#pragma once
// The MPI plug-in's exports: a table of C functions. MPI implementations have no common ABI, so only the plug-in is
// compiled against the installed one.
//
//     const auto* mpi = reinterpret_cast<const headroom_mpi_table* (*)()>(dlsym(library, "headroom_mpi"))();
#include <cstddef>

extern "C" {

struct headroom_mpi_extent {
    std::size_t offset, bytes;
};

struct headroom_mpi_table {
    int version;  ///< kMpiPluginVersion
    /// Starts MPI and returns the rank and the number of ranks, globally and on this machine. Returns null, or a
    /// permanent text with the error.
    const char* (*start)(int* rank, int* ranks, int* local_rank, int* local_ranks);
    /// See headroom::Group::exchange. Returns null, or the error's text.
    const char* (*exchange)(const unsigned char* send, const headroom_mpi_extent* sends, unsigned char* receive,
                            const headroom_mpi_extent* receives);
    void (*finish)();
    void (*abort)(int code);
};

const headroom_mpi_table* headroom_mpi();
}

namespace headroom::dist {
inline constexpr int kMpiPluginVersion = 2;
}
