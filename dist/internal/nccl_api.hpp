#pragma once
// NCCL's functions, loaded at run time, with the declarations that they need from nccl.h. No build requires that
// header; tests/dist/nccl_library_test.cpp compares its declarations with these.
//
//     const NcclApi api = load_nccl({"libnccl.so.2"});
//     if (api.group_start() != kNcclSuccess) ...
#include <cstddef>
#include <string>
#include <vector>

/// CUDA's cudaStream_t points to one.
struct CUstream_st;

namespace headroom::dist {

struct NcclCommunicator;
using NcclResult = int;  ///< ncclResult_t
inline constexpr NcclResult kNcclSuccess = 0, kNcclInProgress = 7;
inline constexpr int kNcclUint8 = 1;  ///< ncclDataType_t

/// ncclUniqueId.
struct NcclId {
    char internal[128] = {};
};
/// ncclConfig_t of NCCL 2.14. Later versions read `version` and use defaults for newer fields.
struct NcclConfig {
    std::size_t size = sizeof(NcclConfig);
    unsigned magic = 0xcafebeef;
    unsigned version = 21400;
    int blocking = 0;
};

struct NcclApi {
    NcclResult (*get_version)(int* version) = nullptr;
    NcclResult (*get_unique_id)(NcclId* id) = nullptr;
    NcclResult (*comm_init_rank_config)(NcclCommunicator** comm, int ranks, NcclId id, int rank,
                                        NcclConfig* config) = nullptr;
    NcclResult (*comm_get_async_error)(NcclCommunicator* comm, NcclResult* error) = nullptr;
    NcclResult (*comm_finalize)(NcclCommunicator* comm) = nullptr;
    NcclResult (*comm_destroy)(NcclCommunicator* comm) = nullptr;
    NcclResult (*comm_abort)(NcclCommunicator* comm) = nullptr;
    NcclResult (*group_start)() = nullptr;
    NcclResult (*group_end)() = nullptr;
    NcclResult (*send)(const void* from, std::size_t count, int type, int peer, NcclCommunicator* comm,
                       CUstream_st* stream) = nullptr;
    NcclResult (*recv)(void* to, std::size_t count, int type, int peer, NcclCommunicator* comm,
                       CUstream_st* stream) = nullptr;
    const char* (*get_error_string)(NcclResult result) = nullptr;
    const char* (*get_last_error)(NcclCommunicator* comm) = nullptr;
};

/// The libraries to try: the one that HEADROOM_NCCL names, else libnccl.so.2 on the loader's path, then the one that
/// the build found.
std::vector<std::string> nccl_libraries();

/// Loads NCCL; see `NcclOptions::libraries`. Errors: DeviceError if no library can be opened, if it lacks a function,
/// or if it is older than NCCL 2.14, the first version with non-blocking calls.
NcclApi load_nccl(const std::vector<std::string>& libraries = {});

}  // namespace headroom::dist
