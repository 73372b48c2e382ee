#pragma once
// A shared library that is opened when it is first needed, so that programs start where it is not installed: CUDA's
// driver, cuBLASLt, cuDNN. Not for libraries that every program needs: those are linked.
//
//     const memory::SharedLibrary library("CUDA: the driver library", {"libcuda.so.1"}, "install NVIDIA's driver");
//     decltype(&::cuInit) init = nullptr;
//     library.find(init, "cuInit");
#include <string>
#include <vector>

namespace headroom::memory {

class SharedLibrary {
  public:
    /// Loads the first of `files` that can be loaded: paths, or names on the loader's path. It is never unloaded,
    /// because its threads and exit handlers outlive this object. `name` and `advice` are for messages. Errors:
    /// DeviceError with the loader's reason against the first file if none can be loaded.
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
