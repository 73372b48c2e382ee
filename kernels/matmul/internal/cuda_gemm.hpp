#pragma once
// Products by cuBLASLt: described once per geometry. The algorithm is chosen on first use: cuBLASLt's proposal, or the
// fastest one measured.
//
//     BlasMatmul blas(load_blas());
//     if (!blas.run(gemm, call, {.stream = stream}, choices)) ...  // refused
#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include <headroom/kernels/device/internal/cuda_timing.hpp>
#include <headroom/kernels/matmul/internal/choices.hpp>
#include <headroom/kernels/matmul/internal/cuda_blas_description.hpp>

namespace headroom::kernels {

class BlasMatmul {
  public:
    /// For the current device. Errors: DeviceError.
    explicit BlasMatmul(const BlasApi& api);
    ~BlasMatmul();
    BlasMatmul(const BlasMatmul&) = delete;
    BlasMatmul& operator=(const BlasMatmul&) = delete;

    std::size_t version() const { return api_.cublasLtGetVersion(); }

    struct Options {
        cudaStream_t stream = nullptr;
        bool tf32 = false;
        WorkTimer timer = nullptr;
        std::function<bool()> in_time = nullptr;  ///< whether another algorithm may be tried; null: always
        bool capturing = false;                   ///< the stream is being captured into a graph
        const WithoutEpilogue* apart = nullptr;   ///< tried beside the algorithms; the call is refused if it is faster
    };
    /// Returns false, and does nothing, if cuBLASLt has no algorithm for it. With a `timer`, algorithms are tried one
    /// after another while they are `in_time`, if `choices` has no tuned one and, for a call with a beta, there is
    /// memory for its trial; otherwise cuBLASLt's first proposal is used. During stream capture nothing is tried, and a
    /// refused call is an error that says nothing about later calls, because the capture may be the reason. Errors:
    /// DeviceError, OutOfMemory; the next call of this product asks cuBLASLt again.
    bool run(const Gemm& gemm, const GemmCall& call, const Options& options, MatmulChoices& choices);

  private:
    struct Product {
        Product(const BlasApi& api, const Gemm& gemm, bool tf32) : description(api, gemm, tf32) {}
        BlasDescription description;
        cublasLtMatmulAlgo_t algorithm{};
        bool known = false, tuned = false, refused = false;
    };
    struct Hash {
        std::size_t operator()(const MatmulChoiceKey& key) const;
    };

    Product& find(const MatmulChoiceKey& key, const Gemm& gemm, bool tf32);
    void choose(Product& product, const Gemm& gemm, const GemmAlignment& alignment, const GemmCall& call,
                const Options& options, MatmulChoices& choices, const MatmulChoiceKey& key);
    bool take(Product& product, const MatmulChoice& choice) const;
    std::vector<cublasLtMatmulAlgo_t> candidates(const Product& product, Dtype result, const GemmAlignment& alignment,
                                                 int most) const;
    std::size_t fastest(const Product& product, const std::vector<cublasLtMatmulAlgo_t>& candidates, bool apart,
                        const Gemm& gemm, const GemmCall& call, const Options& options) const;
    cublasStatus_t enqueue(const Product& product, const cublasLtMatmulAlgo_t& algorithm, const Gemm& gemm,
                           const GemmCall& call, const void* old, cudaStream_t stream) const;

    BlasApi api_;
    cublasLtHandle_t handle_ = nullptr;
    std::unordered_map<MatmulChoiceKey, std::unique_ptr<Product>, Hash> products_;
};

/// Part of a stream's state; created by the first product.
struct BlasState {
    std::unique_ptr<BlasMatmul> blas;
};

}  // namespace headroom::kernels
