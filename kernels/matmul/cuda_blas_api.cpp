#include <headroom/kernels/matmul/cuda_blas_api.hpp>

#include <dlfcn.h>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

class Library {
  public:
    explicit Library(const std::vector<std::string>& names) {
        std::string reason;
        for (const std::string& name : names) {
            // It stays loaded: its threads and what it does at exit outlive us.
            handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
            if (handle_) return;
            const char* const text = dlerror();
            if (reason.empty()) reason = text ? text : name;
        }
        throw DeviceError(fmt::format(
            "matmul: cuBLASLt can't be loaded ({}); install NVIDIA's cuBLAS {} (Python package nvidia-cublas) "
            "and put its folder into LD_LIBRARY_PATH, or set CudaMatmulSettings::own_kernels, which is slow",
            reason, CUBLAS_VER_MAJOR));
    }
    ~Library() { dlclose(handle_); }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    template <class Function>
    void find(Function*& function, const char* symbol) const {
        function = reinterpret_cast<Function*>(dlsym(handle_, symbol));
        if (function) return;
        throw DeviceError(
            fmt::format("matmul: cuBLASLt has no {}; install NVIDIA's cuBLAS {}", symbol, CUBLAS_VER_MAJOR));
    }

  private:
    void* handle_ = nullptr;
};

}  // namespace

std::vector<std::string> blas_libraries() {
    const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
#ifdef HEADROOM_CUBLAS_FOLDER
    return {name, HEADROOM_CUBLAS_FOLDER + name};
#else
    return {name};
#endif
}

BlasApi load_blas(const std::vector<std::string>& libraries) {
    const Library library(libraries);
    BlasApi api;
    library.find(api.cublasLtCreate, "cublasLtCreate");
    library.find(api.cublasLtDestroy, "cublasLtDestroy");
    library.find(api.cublasLtGetVersion, "cublasLtGetVersion");
    library.find(api.cublasLtGetStatusName, "cublasLtGetStatusName");
    library.find(api.cublasLtMatmulDescCreate, "cublasLtMatmulDescCreate");
    library.find(api.cublasLtMatmulDescDestroy, "cublasLtMatmulDescDestroy");
    library.find(api.cublasLtMatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
    library.find(api.cublasLtMatrixLayoutCreate, "cublasLtMatrixLayoutCreate");
    library.find(api.cublasLtMatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy");
    library.find(api.cublasLtMatrixLayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute");
    library.find(api.cublasLtMatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate");
    library.find(api.cublasLtMatmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy");
    library.find(api.cublasLtMatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
    library.find(api.cublasLtMatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
    library.find(api.cublasLtMatmulAlgoCheck, "cublasLtMatmulAlgoCheck");
    library.find(api.cublasLtMatmul, "cublasLtMatmul");
    return api;
}

}  // namespace headroom::kernels
