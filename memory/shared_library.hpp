#pragma once
// A shared library that is opened on first use, so that programs start without it: CUDA's driver, cuBLASLt, cuDNN.
// Libraries that every program needs are linked instead.
//
//     const auto files = memory::library_files("HEADROOM_NCCL", {"libnccl.so.2", built});
//     const memory::SharedLibrary library("NCCL", files, "install it, or name its file in HEADROOM_NCCL");
//     decltype(&::ncclGetVersion) get_version = nullptr;
//     library.find(get_version, "ncclGetVersion");
#include <string>
#include <vector>

namespace headroom::memory {

/// Candidates for a library's file. If the environment variable `variable` is set, only the file that it names; else
/// `otherwise` in order, such as the library's name on the loader's path and then the file found by the build (empty if
/// none).
std::vector<std::string> library_files(const char* variable, std::vector<std::string> otherwise);

class SharedLibrary {
  public:
    /// Loads the first of `files` (paths, or names on the loader's path) that can be loaded. The library is never
    /// unloaded, because its threads and exit handlers outlive this object. `name` and `advice` are for messages.
    /// Errors: DeviceError with the loader's reason for each file if none can be loaded.
    SharedLibrary(std::string name, const std::vector<std::string>& files, std::string advice);

    /// Sets `function` to the exported symbol `symbol`. Errors: DeviceError if there is none.
    template <class Function>
    void find(Function*& function, const char* symbol) const {
        function = reinterpret_cast<Function*>(address_of(symbol));
    }
    /// The handle from dlopen.
    void* handle() const noexcept { return handle_; }

  private:
    void* address_of(const char* symbol) const;

    std::string name_;
    std::string advice_;
    std::string file_;
    void* handle_ = nullptr;
};

}  // namespace headroom::memory
