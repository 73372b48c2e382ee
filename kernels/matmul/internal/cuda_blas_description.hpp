#pragma once
// RAII objects that describe a product to cuBLASLt. Need no GPU.
//
//     const BlasDescription description(api, gemm, tf32);
//     description.set_bias(pointer);
//     api.cublasLtMatmul(handle, description.product(), &one, a, description.a(), ...);
#include <memory>
#include <string>
#include <type_traits>

#include <headroom/kernels/matmul/internal/choices.hpp>
#include <headroom/kernels/matmul/internal/cuda_blas_api.hpp>

namespace headroom::kernels {

/// Errors, unless the status is success: OutOfMemory for lack of memory, else DeviceError; the message has call and
/// status.
void check_blas(const BlasApi& api, const char* call, cublasStatus_t status);

class BlasDescription {
  public:
    BlasDescription(const BlasApi& api, const Gemm& gemm, bool tf32);

    cublasLtMatmulDesc_t product() const { return product_.get(); }
    cublasLtMatrixLayout_t a() const { return a_.get(); }
    cublasLtMatrixLayout_t b() const { return b_.get(); }
    /// The layout of the result, and of the matrix read for beta.
    cublasLtMatrixLayout_t d() const { return d_.get(); }

    /// For products with a bias or sums, and with `inner`: call it before choosing algorithms, and before each product.
    void set_bias(const void* bias) const;
    void set_inner(const void* inner) const;

  private:
    template <class Handle>
    using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;

    Owned<cublasLtMatrixLayout_t> layout(Dtype dtype, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                                         std::int64_t batches, std::int64_t batch) const;

    const BlasApi& api_;
    Owned<cublasLtMatmulDesc_t> product_;
    Owned<cublasLtMatrixLayout_t> a_, b_, d_;
};

/// Limits the choice of algorithms to workspaces of up to kGemmWorkspace and to the pointers' alignments. If the depth
/// is split, allows only algorithms that add the parts in f32 (f64), so that a half's parts are not rounded before they
/// are added. All of cuBLASLt's ways to add parts have a fixed order: a separate step, or counters "to guarantee the
/// sequentiality" (cublasLt.h at cublasLtReductionScheme_t).
class BlasPreference {
  public:
    BlasPreference(const BlasApi& api, Dtype result, const GemmAlignment& alignment);
    cublasLtMatmulPreference_t get() const { return preference_.get(); }

  private:
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, decltype(&::cublasLtMatmulPreferenceDestroy)>
        preference_;
};

}  // namespace headroom::kernels
