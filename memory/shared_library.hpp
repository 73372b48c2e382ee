#pragma once
// A shared library that is opened when it is first needed, so that programs start where it is not installed: CUDA's
// driver, cuBLASLt, cuDNN. Not for libraries that every program needs: those are linked.
//
//     const auto files = memory::library_files("HEADROOM_NCCL", {"libnccl.so.2", built});
//     const memory::SharedLibrary library("NCCL", files, "install it, or name its file in HEADROOM_NCCL");
//     decltype(&::ncclGetVersion) get_version = nullptr;
//     library.find(get_version, "ncclGetVersion");
#include <string>
#include <vector>

namespace headroom::memory {

/// Where a library is looked for: the file that the environment variable names, and then no other; else `otherwise`, in
/// this order, such as its name on the loader's path and then the file that the build found (empty: it found none).
std::vector<std::string> library_files(const char* variable, std::vector<std::string> otherwise);

class SharedLibrary {
  public:
    /// Loads the first of `files` that can be loaded: paths, or names on the loader's path. It is never unloaded,
    /// because its threads and exit handlers outlive this object. `name` and `advice` are for messages. Errors:
    /// DeviceError with the loader's reason against each file if none can be loaded.
    SharedLibrary(std::string name, const std::vector<std::string>& files, std::string advice);

    /// Sets `function` to the one that the library exports as `symbol`. Errors: DeviceError if there is none.
    template <class Function>
    void find(Function*& function, const char* symbol) const {
        function = reinterpret_cast<Function*>(address_of(symbol));
    }
    /// The result of dlopen.
    void* handle() const noexcept { return handle_; }

  private:
    void* address_of(const char* symbol) const;

    std::string name_;
    std::string advice_;
    std::string file_;
    void* handle_ = nullptr;
};

}  // namespace headroom::memory
