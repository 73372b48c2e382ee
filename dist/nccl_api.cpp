#include <headroom/dist/internal/nccl_api.hpp>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/memory/shared_library.hpp>

namespace headroom::dist {

std::vector<std::string> nccl_libraries() {
    return memory::library_files("HEADROOM_NCCL", {"libnccl.so.2", HEADROOM_NCCL_BUILT});
}

NcclApi load_nccl(const std::vector<std::string>& libraries) {
    constexpr const char* advice =
        "install NVIDIA's NCCL 2 (Python package nvidia-nccl-cu13) and put its folder into LD_LIBRARY_PATH";
    const memory::SharedLibrary library("several GPUs: NCCL", libraries.empty() ? nccl_libraries() : libraries, advice);
    NcclApi api;
    library.find(api.get_version, "ncclGetVersion");
    int version = 0;
    if (api.get_version(&version) != kNcclSuccess || version < 21400) {  // up to 2.8 they count in thousands
        const int major = version < 10000 ? version / 1000 : version / 10000;
        const int minor = version < 10000 ? version % 1000 / 100 : version % 10000 / 100;
        throw DeviceError(
            fmt::format("several GPUs: NCCL {}.{} is too old, 2.14 or newer is needed; {}", major, minor, advice));
    }
    library.find(api.get_unique_id, "ncclGetUniqueId");
    library.find(api.comm_init_rank_config, "ncclCommInitRankConfig");
    library.find(api.comm_get_async_error, "ncclCommGetAsyncError");
    library.find(api.comm_finalize, "ncclCommFinalize");
    library.find(api.comm_destroy, "ncclCommDestroy");
    library.find(api.comm_abort, "ncclCommAbort");
    library.find(api.group_start, "ncclGroupStart");
    library.find(api.group_end, "ncclGroupEnd");
    library.find(api.send, "ncclSend");
    library.find(api.recv, "ncclRecv");
    library.find(api.get_error_string, "ncclGetErrorString");
    library.find(api.get_last_error, "ncclGetLastError");
    return api;
}

}  // namespace headroom::dist
