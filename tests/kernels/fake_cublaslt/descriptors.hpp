#pragma once
// What the opaque objects of the library that stands in for cuBLASLt hold.
#include <cstdint>

#include <cublasLt.h>

struct FakeProduct {
    std::int32_t compute = 0, scale = 0, transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, bias_type = -1;
    std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    void* bias = nullptr;
    void* aux = nullptr;
    std::int64_t aux_ld = 0, aux_batch = 0;
};
struct FakeLayout {
    std::uint32_t type = 0;
    std::uint64_t rows = 0, columns = 0;
    std::int64_t ld = 0, batch = 0;
    std::int32_t batches = 1;
};
struct FakePreference {
    std::uint64_t workspace = 0;
    std::uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_MASK, a = 256, b = 256, c = 256, d = 256;
};

inline FakeProduct& at(cublasLtMatmulDesc_t handle) { return *reinterpret_cast<FakeProduct*>(handle); }
inline FakeLayout& at(cublasLtMatrixLayout_t handle) { return *reinterpret_cast<FakeLayout*>(handle); }
inline FakePreference& at(cublasLtMatmulPreference_t handle) { return *reinterpret_cast<FakePreference*>(handle); }
