#pragma once
// cuBLASLt's functions, looked up at run time, so that programs start where CUDA is not installed.
//
//     const BlasApi api = load_blas();
//     cublasLtHandle_t handle = nullptr;
//     if (api.cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS) ...
#include <string>
#include <vector>

#include <cublasLt.h>

namespace headroom::kernels {

/// Members are spelled as in cublasLt.h.
struct BlasApi {
    decltype(&::cublasLtCreate) cublasLtCreate = nullptr;
    decltype(&::cublasLtDestroy) cublasLtDestroy = nullptr;
    decltype(&::cublasLtGetVersion) cublasLtGetVersion = nullptr;
    decltype(&::cublasLtGetStatusName) cublasLtGetStatusName = nullptr;
    decltype(&::cublasLtMatmulDescCreate) cublasLtMatmulDescCreate = nullptr;
    decltype(&::cublasLtMatmulDescDestroy) cublasLtMatmulDescDestroy = nullptr;
    decltype(&::cublasLtMatmulDescSetAttribute) cublasLtMatmulDescSetAttribute = nullptr;
    decltype(&::cublasLtMatrixLayoutCreate) cublasLtMatrixLayoutCreate = nullptr;
    decltype(&::cublasLtMatrixLayoutDestroy) cublasLtMatrixLayoutDestroy = nullptr;
    decltype(&::cublasLtMatrixLayoutSetAttribute) cublasLtMatrixLayoutSetAttribute = nullptr;
    decltype(&::cublasLtMatmulPreferenceCreate) cublasLtMatmulPreferenceCreate = nullptr;
    decltype(&::cublasLtMatmulPreferenceDestroy) cublasLtMatmulPreferenceDestroy = nullptr;
    decltype(&::cublasLtMatmulPreferenceSetAttribute) cublasLtMatmulPreferenceSetAttribute = nullptr;
    decltype(&::cublasLtMatmulAlgoGetHeuristic) cublasLtMatmulAlgoGetHeuristic = nullptr;
    decltype(&::cublasLtMatmulAlgoCheck) cublasLtMatmulAlgoCheck = nullptr;
    decltype(&::cublasLtMatmul) cublasLtMatmul = nullptr;
};

/// The files to try: the one named by HEADROOM_CUBLASLT, else libcublasLt.so.<major version of the headers> on the
/// loader's path, then in the toolkit or wheel that the build found.
std::vector<std::string> blas_libraries();

/// Loads the first of `libraries` that can be loaded. Errors: DeviceError if none can, or if it lacks a function.
BlasApi load_blas(const std::vector<std::string>& libraries = blas_libraries());

}  // namespace headroom::kernels
