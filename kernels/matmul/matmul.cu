// How a matmul on a GPU is put together from the library's calls and the project's own kernels.
#include <headroom/kernels/matmul/matmul.hpp>

#include <headroom/kernels/matmul/internal/activate.hpp>
#include <headroom/kernels/matmul/internal/own_products.hpp>
#include <headroom/kernels/matmul/internal/tiled.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>

namespace headroom::kernels {

namespace {

void note(CudaStream& stream, const Problem& product, const Matmul& matmul, OwnPart part) {
    stream.state->get<OwnProducts>().add(own_product(product, matmul, part));
}

void run_tiles(CudaStream& stream, const Problem& product, const Matmul& matmul) {
    if (product.k > 0 && !stream.compute.own_kernels) note(stream, product, matmul, OwnPart::product);
    tiled_matmul(stream, product);
}

}  // namespace

GemmCall MatmulPlan::call_of_gemm(const Gemm& gemm, std::byte* scratch) const {
    GemmCall call = call_of(product_, gemm, scratch);
    if (trial_ != 0) call.trial = scratch + trial_;
    return call;
}

View MatmulPlan::sums_in(std::byte* scratch) const {
    return contiguous_view(scratch + kGemmWorkspace, matmul_.sums.dtype, matmul_.sums.shape);
}

/// What `run` does where the library takes the product alone; what would be added to stays.
bool MatmulPlan::try_apart(CudaStream& stream, std::byte* scratch) const {
    Matmul apart = matmul_;
    apart.sums = sums_in(scratch), apart.sums_beta = 0;
    if (apart.beta != 0) apart.c.data = scratch + trial_;
    const MatmulPlan plan(stream, apart);
    plan.sums_->run(stream, scratch);
    const Gemm product = plan.gemm_->product();
    return run_gemm(stream, product, plan.call_of_gemm(product, scratch));
}

/// False if the library refuses, or both are faster apart.
bool MatmulPlan::run_whole(CudaStream& stream, std::byte* scratch) const {
    GemmCall call = call_of_gemm(*gemm_, scratch);
    call.d = matmul_.c.as<std::byte>();
    call.inner = matmul_.inner.as<const std::byte>();
    const View& sums = matmul_.sums;
    const bool adds = gemm_->sums && matmul_.sums_beta != 0;  // cuBLASLt only overwrites
    const View part = sums_in(scratch);
    if (gemm_->sums) call.bias = (adds ? part : sums).as<const std::byte>();
    WithoutEpilogue apart;  // for sums alone: the others' results would be rounded once more
    if (gemm_->sums && stream.compute.tune && (product_.beta == 0 || trial_ != 0))
        apart = [&] { return try_apart(stream, scratch); };
    if (!run_gemm(stream, *gemm_, call, apart)) {
        note(stream, product_, matmul_, OwnPart::beside);
        return false;
    }
    if (adds) map_backward(stream, Affine{}, part, part, matmul_.sums_beta, sums);
    if (matmul_.has_outer()) activate(stream, matmul_.activation, matmul_.inner, matmul_.outer);
    return true;
}

void MatmulPlan::run_product(CudaStream& stream, std::byte* scratch) const {
    if (!gemm_) return run_tiles(stream, product_, matmul_);
    Gemm gemm = gemm_->product();
    bool done = run_gemm(stream, gemm, call_of_gemm(gemm, scratch));
    if (!done && gemm.fused()) {  // it may be the epilogue that the library refuses
        gemm = gemm.without_epilogue();
        done = run_gemm(stream, gemm, call_of_gemm(gemm, scratch));
        if (done) note(stream, product_, matmul_, OwnPart::epilogue);
    }
    if (!done) return run_tiles(stream, product_, matmul_);
    const View& c = matmul_.has_inner() && !matmul_.derivative ? matmul_.inner : matmul_.c;
    if (gemm.bias_remains) return add_bias(stream, gemm.activation_remains, matmul_.bias, c);
    if (gemm.remains()) activate(stream, gemm.activation_remains, c, c);
}

void MatmulPlan::run(CudaStream& stream, std::byte* scratch) const {
    if (gemm_ && gemm_->whole() && run_whole(stream, scratch)) return;
    if (sums_) sums_->run(stream, scratch);
    if (product_.empty()) return;
    run_product(stream, scratch);
    if (matmul_.has_inner()) finish_activation(stream, matmul_);
}

std::string matmul_library(CudaStream& stream) {
    if (stream.compute.own_kernels) return "own kernels, as ComputeOptions::own_kernels asks";
    const std::string own = stream.state->get<OwnProducts>().text();
    return gemm_library(stream) + (own.empty() ? "" : "; " + own);
}

}  // namespace headroom::kernels
