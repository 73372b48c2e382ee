#pragma once
// What the MPI plug-in exports: a table of functions in C, for the plug-in alone is compiled against the MPI that is
// installed, and those have no common ABI.
//
//     const auto* mpi = reinterpret_cast<const headroom_mpi_table* (*)()>(dlsym(library, "headroom_mpi"))();
#include <cstddef>

extern "C" {

struct headroom_mpi_extent {
    std::size_t offset, bytes;
};

struct headroom_mpi_table {
    int version;  ///< kMpiPluginVersion
    /// Starts MPI; the rank and the number of ranks, of all and of this machine's. Null, or why not; the text stays.
    const char* (*start)(int* rank, int* ranks, int* local_rank, int* local_ranks);
    /// See headroom::Group::exchange. Null, or why not.
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
