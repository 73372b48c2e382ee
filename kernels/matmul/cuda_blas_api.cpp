#include <headroom/kernels/matmul/internal/cuda_blas_api.hpp>

#include <fmt/format.h>

#include <headroom/memory/shared_library.hpp>

namespace headroom::kernels {

std::vector<std::string> blas_libraries() {
    const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
#ifdef HEADROOM_CUBLAS_FOLDER
    return memory::library_files("HEADROOM_CUBLASLT", {name, HEADROOM_CUBLAS_FOLDER + name});
#else
    return memory::library_files("HEADROOM_CUBLASLT", {name});
#endif
}

BlasApi load_blas(const std::vector<std::string>& libraries) {
    const memory::SharedLibrary library(
        "matmul: cuBLASLt", libraries,
        fmt::format("install NVIDIA's cuBLAS {} (Python package nvidia-cublas) and put its folder into "
                    "LD_LIBRARY_PATH, or name its file in HEADROOM_CUBLASLT, or set ComputeOptions::own_kernels, which "
                    "is slow",
                    CUBLAS_VER_MAJOR));
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
