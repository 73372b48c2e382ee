#include <headroom/kernels/matmul/internal/cuda_gemm.hpp>

#include <algorithm>
#include <bit>
#include <limits>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

constexpr int kCandidates = 8;  // that are tried

/// The largest power of two, up to 256, of which an address is a multiple; below, in each of a product's calls.
std::uint32_t alignment_of(const void* data) {
    return std::uint32_t{1} << std::countr_zero(std::bit_cast<std::uintptr_t>(data) | 256);
}
std::uint32_t alignment_of(const void* data, Dtype dtype, const Gemm& gemm, std::int64_t Gemm::Loop::*stride) {
    auto bits = std::bit_cast<std::uintptr_t>(data) | 256;
    for (const Gemm::Loop& loop : gemm.loops) {
        if (loop.size > 1) bits |= static_cast<std::uintptr_t>(loop.*stride) * size_of(dtype);
    }
    return std::uint32_t{1} << std::countr_zero(bits);
}

GemmAlignment alignment_of(const GemmCall& data, const Gemm& gemm) {
    GemmAlignment alignment{.a = alignment_of(data.a, gemm.operand, gemm, &Gemm::Loop::a),
                            .b = alignment_of(data.b, gemm.operand, gemm, &Gemm::Loop::b),
                            .d = alignment_of(data.d, gemm.result, gemm, &Gemm::Loop::d)};
    if (gemm.bias || gemm.sums) alignment.bias = alignment_of(data.bias);
    if (gemm.has_inner()) alignment.inner = alignment_of(data.inner);
    return alignment;
}

bool refusal(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
           status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/// Nothing can be timed in a capture. With a beta, each algorithm would add to the result once more: so they write
/// elsewhere.
bool tries(const BlasMatmul::Options& options, const GemmCall& call) {
    return options.timer && !options.capturing && (call.beta == 0 || call.trial != nullptr);
}

}  // namespace

BlasMatmul::BlasMatmul(const BlasApi& api) : api_(api) {
    check_blas(api_, "cublasLtCreate", api_.cublasLtCreate(&handle_));
}

BlasMatmul::~BlasMatmul() {
    products_.clear();
    api_.cublasLtDestroy(handle_);
}

bool BlasMatmul::run(const Gemm& gemm, const GemmCall& call, const Options& options, MatmulChoices& choices) {
    const GemmAlignment alignment = alignment_of(call, gemm);
    const MatmulChoiceKey key = choice_key(gemm, alignment, options.tf32);
    Product& product = find(key, gemm, options.tf32);
    if (gemm.bias || gemm.sums) product.description.set_bias(call.bias);
    if (gemm.has_inner()) product.description.set_inner(call.inner);
    if (!product.known || (tries(options, call) && !product.tuned))
        choose(product, gemm, alignment, call, options, choices, key);
    if (product.refused) return false;
    for (std::int64_t i = 0; i < gemm.calls(); ++i) {
        const Gemm::Loop offset = gemm.offsets(i);
        const auto operand = static_cast<std::int64_t>(size_of(gemm.operand));
        GemmCall part = call;
        part.a += offset.a * operand;
        part.b += offset.b * operand;
        part.d += offset.d * static_cast<std::int64_t>(size_of(gemm.result));
        const cublasStatus_t status = enqueue(product, product.algorithm, gemm, part, part.d, options.stream);
        if (status == CUBLAS_STATUS_SUCCESS) continue;
        if (i == 0 && refusal(status) && !options.capturing) {  // against what the heuristic said; nothing is under way
            product.refused = true;
            return false;
        }
        throw DeviceError(fmt::format("matmul: cublasLtMatmul: {} for {} x {} x {}, {} to {}",
                                      api_.cublasLtGetStatusName(status), gemm.rows, gemm.columns, gemm.depth,
                                      name(gemm.operand), name(gemm.result)));
    }
    return true;
}

std::size_t BlasMatmul::Hash::operator()(const MatmulChoiceKey& key) const {
    std::uint64_t hash = 0;
    for (const std::int64_t word : key) {
        hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

BlasMatmul::Product& BlasMatmul::find(const MatmulChoiceKey& key, const Gemm& gemm, bool tf32) {
    std::unique_ptr<Product>& product = products_[key];
    if (!product) product = std::make_unique<Product>(api_, gemm, tf32);
    return *product;
}

void BlasMatmul::choose(Product& product, const Gemm& gemm, const GemmAlignment& alignment, const GemmCall& call,
                        const Options& options, MatmulChoices& choices, const MatmulChoiceKey& key) {
    const bool tries_all = tries(options, call);
    const MatmulChoice* const chosen = choices.find(key);
    if (chosen != nullptr && (chosen->tuned || !tries_all) && take(product, *chosen)) return;
    const auto found = candidates(product, gemm.result, alignment, tries_all ? kCandidates : 1);
    const bool apart = tries_all && !found.empty() && options.apart && (*options.apart)();  // which tunes itself
    const bool several = found.size() > 1 || apart;
    const std::size_t best = several ? fastest(product, found, apart, gemm, call, options) : 0;
    product.known = true;
    product.tuned = tries_all;  // whatever came of it, it is tried once
    product.refused = best == found.size();
    if (found.empty()) return;
    MatmulChoice choice{.tuned = product.tuned};
    if (!product.refused) {
        product.algorithm = found[best];
        std::copy(std::begin(product.algorithm.data), std::end(product.algorithm.data), choice.words.begin());
    }
    choices.set(key, choice);
}

/// False if cuBLASLt does not take the algorithm, which may come from a file.
bool BlasMatmul::take(Product& product, const MatmulChoice& choice) const {
    if (choice.apart()) {
        product.known = product.tuned = product.refused = true;
        return true;
    }
    cublasLtMatmulAlgo_t algorithm{};
    std::copy(choice.words.begin(), choice.words.end(), std::begin(algorithm.data));
    const BlasDescription& d = product.description;
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status =
        api_.cublasLtMatmulAlgoCheck(handle_, d.product(), d.a(), d.b(), d.d(), d.d(), &algorithm, &result);
    if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kGemmWorkspace) return false;
    product.algorithm = algorithm;
    product.known = true;
    product.tuned = choice.tuned;
    return true;
}

/// In the order in which cuBLASLt expects them to be fast.
std::vector<cublasLtMatmulAlgo_t> BlasMatmul::candidates(const Product& product, Dtype result,
                                                         const GemmAlignment& alignment, int most) const {
    const BlasPreference preference(api_, result, alignment);
    const BlasDescription& d = product.description;
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
    int count = 0;
    const cublasStatus_t status = api_.cublasLtMatmulAlgoGetHeuristic(handle_, d.product(), d.a(), d.b(), d.d(), d.d(),
                                                                      preference.get(), most, results.data(), &count);
    if (refusal(status)) return {};
    check_blas(api_, "cublasLtMatmulAlgoGetHeuristic", status);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < count; ++i) {
        const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
        if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
    }
    return algorithms;
}

/// The index of the fastest candidate that there was time for, or of the first; behind them, that of what is done
/// `apart`.
std::size_t BlasMatmul::fastest(const Product& product, const std::vector<cublasLtMatmulAlgo_t>& candidates, bool apart,
                                const Gemm& gemm, const GemmCall& call, const Options& options) const {
    GemmCall trial = call;
    if (call.beta != 0) trial.d = call.trial;
    std::vector<float> times;
    const std::size_t count = candidates.size() + (apart ? 1 : 0);
    while (times.size() < count && (!options.in_time || options.in_time())) {
        const std::size_t index = times.size();
        bool failed = false;
        const float time = options.timer(1, [&](int) {
            const bool done = index == candidates.size() ? (*options.apart)()
                                                         : enqueue(product, candidates[index], gemm, trial, call.d,
                                                                   options.stream) == CUBLAS_STATUS_SUCCESS;
            failed = failed || !done;
        })[0];
        times.push_back(failed ? std::numeric_limits<float>::infinity() : time);
    }
    return static_cast<std::size_t>(std::min_element(times.begin(), times.end()) - times.begin());
}

cublasStatus_t BlasMatmul::enqueue(const Product& product, const cublasLtMatmulAlgo_t& algorithm, const Gemm& gemm,
                                   const GemmCall& call, const void* old, cudaStream_t stream) const {
    const BlasDescription& d = product.description;
    const float one = 1;
    const double wide_one = 1, wide_beta = call.beta;
    const bool wide = gemm.operand == Dtype::f64;  // the scale type
    return api_.cublasLtMatmul(handle_, d.product(), wide ? static_cast<const void*>(&wide_one) : &one, call.a, d.a(),
                               call.b, d.b(), wide ? static_cast<const void*>(&wide_beta) : &call.beta, old, d.d(),
                               call.d, d.d(), &algorithm, call.workspace, kGemmWorkspace, stream);
}

}  // namespace headroom::kernels
