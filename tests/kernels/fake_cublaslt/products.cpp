// Products of the library that stands in for cuBLASLt: checked by the rules of its documentation, proposed, computed.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include <headroom/tests/kernels/column_major.hpp>
#include <headroom/tests/kernels/fake_cublaslt/descriptors.hpp>
#include <headroom/tests/kernels/fake_cublaslt/fake_cublaslt.hpp>

namespace {

using headroom::kernels::Dtype;
using headroom::kernels::test::ColumnMajor;
using headroom::kernels::test::Curve;

constexpr int kAlgorithms = 5;
constexpr std::uint64_t kMagic = 0x68656164726f6f6d;
constexpr std::size_t kWorkspaceUsed = 4096;

struct Described {
    const FakeProduct& product;
    const FakeLayout &a, &b, &c, &d;
};

cublasStatus_t wrong(const char* what, cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE) {
    fake_blas_state()->problem = what;
    return status;
}

bool takes_types(const Described& x) {
    const auto a = x.a.type, d = x.d.type;
    if (x.b.type != a || x.c.type != d) return false;
    if (x.product.compute == CUBLAS_COMPUTE_64F)
        return x.product.scale == CUDA_R_64F && a == CUDA_R_64F && d == CUDA_R_64F;
    if (x.product.scale != CUDA_R_32F) return false;
    if (x.product.compute == CUBLAS_COMPUTE_32F_FAST_TF32) return a == CUDA_R_32F && d == CUDA_R_32F;
    if (x.product.compute != CUBLAS_COMPUTE_32F) return false;
    if (a == CUDA_R_32F) return d == CUDA_R_32F;
    return (a == CUDA_R_16F || a == CUDA_R_16BF) && (d == a || d == CUDA_R_32F);
}

constexpr std::uint32_t kAuxiliary = 128;  // the bit of epilogues that write or read a matrix

bool is_sum(std::uint32_t epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}
bool has_vector(std::uint32_t epilogue) { return is_sum(epilogue) || (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }

/// A bias, or its gradient, has D's type, as a matrix beside D has: its leading dimension and batch stride are
/// multiples of 8.
bool takes_epilogue(const Described& x) {
    const FakeProduct& p = x.product;
    switch (p.epilogue) {
        case CUBLASLT_EPILOGUE_DEFAULT:
        case CUBLASLT_EPILOGUE_RELU:
        case CUBLASLT_EPILOGUE_GELU:
        case CUBLASLT_EPILOGUE_BIAS:
        case CUBLASLT_EPILOGUE_RELU_BIAS:
        case CUBLASLT_EPILOGUE_GELU_BIAS:
        case CUBLASLT_EPILOGUE_GELU_AUX:
        case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        case CUBLASLT_EPILOGUE_DGELU:
            break;
        case CUBLASLT_EPILOGUE_BGRADA:
        case CUBLASLT_EPILOGUE_BGRADB:
            if (x.d.batches != 1) return false;
            break;
        default:
            return false;
    }
    if (has_vector(p.epilogue) && (p.bias == nullptr || p.bias_type != static_cast<std::int32_t>(x.d.type)))
        return false;
    if ((p.epilogue & kAuxiliary) == 0) return true;
    const auto rows = static_cast<std::int64_t>(x.d.rows), columns = static_cast<std::int64_t>(x.d.columns);
    return p.aux != nullptr && p.aux_ld >= rows && p.aux_ld % 8 == 0 && p.aux_batch % 8 == 0 &&
           (x.d.batches == 1 || p.aux_batch >= p.aux_ld * (columns - 1) + rows);
}

bool takes_layouts(const Described& x) {
    const bool ta = x.product.transpose_a == CUBLAS_OP_T, tb = x.product.transpose_b == CUBLAS_OP_T;
    const std::uint64_t rows = ta ? x.a.columns : x.a.rows, depth = ta ? x.a.rows : x.a.columns;
    const std::uint64_t columns = tb ? x.b.rows : x.b.columns;
    if (depth != (tb ? x.b.columns : x.b.rows) || x.d.rows != rows || x.d.columns != columns || depth == 0)
        return false;
    for (const FakeLayout* layout : {&x.a, &x.b, &x.c, &x.d}) {
        constexpr std::uint64_t most = std::numeric_limits<std::int32_t>::max();
        if (layout->ld < static_cast<std::int64_t>(layout->rows) || std::max(layout->rows, layout->columns) > most ||
            layout->batches != x.d.batches || layout->batches < 1)
            return false;
    }
    return x.c.rows == x.d.rows && x.c.columns == x.d.columns && x.c.ld == x.d.ld && x.c.batch == x.d.batch;
}

/// Two of the ways to add parts of the depth keep them in D's type.
bool rounds_parts(const Described& x, std::uint32_t reductions) {
    const std::uint32_t of_result = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    return x.d.type != (x.product.compute == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F) && (reductions & of_result);
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) { return (hash ^ value) * 0x100000001b3; }

/// Of everything that an algorithm was proposed for.
std::uint64_t fingerprint(const Described& x) {
    std::uint64_t hash = 0xcbf29ce484222325;
    const FakeProduct& p = x.product;
    for (const auto value : {p.compute, p.scale, p.transpose_a, p.transpose_b, static_cast<std::int32_t>(p.epilogue)})
        hash = mixed(hash, static_cast<std::uint64_t>(value));
    for (const auto value : {p.aux_ld, p.aux_batch}) hash = mixed(hash, static_cast<std::uint64_t>(value));
    for (const FakeLayout* layout : {&x.a, &x.b, &x.c, &x.d}) {
        for (const auto value : {static_cast<std::uint64_t>(layout->type), layout->rows, layout->columns,
                                 static_cast<std::uint64_t>(layout->ld), static_cast<std::uint64_t>(layout->batches),
                                 static_cast<std::uint64_t>(layout->batch)})
            hash = mixed(hash, value);
    }
    return hash;
}

std::uint64_t alignment(const void* pointer) {
    return std::uint64_t{1} << std::countr_zero(std::bit_cast<std::uintptr_t>(pointer) | 256);
}

bool aligned(const void* pointer, std::uint64_t bytes) { return std::bit_cast<std::uintptr_t>(pointer) % bytes == 0; }

/// Words of an algorithm: magic, number, alignments of a, b, d and the bias, fingerprint, alignment of what is beside
/// D.
cublasStatus_t check(const Described& x, const cublasLtMatmulAlgo_t& algorithm) {
    if (!takes_types(x)) return wrong("types", CUBLAS_STATUS_NOT_SUPPORTED);
    if (!takes_layouts(x)) return wrong("layouts");
    if (!takes_epilogue(x)) return wrong("the epilogue");
    if (algorithm.data[0] != kMagic || algorithm.data[1] >= kAlgorithms) return wrong("what is no algorithm");
    if (algorithm.data[6] != fingerprint(x)) return wrong("an algorithm for another product");
    return CUBLAS_STATUS_SUCCESS;
}

Dtype dtype(std::uint32_t type) {
    return type == CUDA_R_16F    ? Dtype::f16
           : type == CUDA_R_16BF ? Dtype::bf16
           : type == CUDA_R_64F  ? Dtype::f64
                                 : Dtype::f32;
}

/// The bytes that a matrix takes, all batches.
std::size_t extent(const FakeLayout& x) {
    const auto rows = static_cast<std::int64_t>(x.rows), columns = static_cast<std::int64_t>(x.columns);
    const std::int64_t elements = (x.batches - 1) * x.batch + (columns - 1) * x.ld + rows;
    return static_cast<std::size_t>(elements) * size_of(dtype(x.type));
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
    const auto first = std::bit_cast<std::uintptr_t>(a), second = std::bit_cast<std::uintptr_t>(b);
    return first < second + b_bytes && second < first + a_bytes;
}

double scalar(const FakeProduct& product, const void* value) {
    return product.scale == CUDA_R_64F ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
}

Curve curve(std::uint32_t epilogue) {
    if (epilogue == CUBLASLT_EPILOGUE_DGELU) return Curve::gelu_slope;
    if ((epilogue & CUBLASLT_EPILOGUE_RELU) != 0) return Curve::relu;
    return (epilogue & CUBLASLT_EPILOGUE_GELU) != 0 ? Curve::gelu : Curve::none;
}

ColumnMajor column_major(const Described& x) {
    const bool ta = x.product.transpose_a == CUBLAS_OP_T, tb = x.product.transpose_b == CUBLAS_OP_T;
    const std::uint32_t epilogue = x.product.epilogue;
    return {.rows = static_cast<std::int64_t>(x.d.rows),
            .columns = static_cast<std::int64_t>(x.d.columns),
            .depth = static_cast<std::int64_t>(ta ? x.a.rows : x.a.columns),
            .transpose_a = ta,
            .transpose_b = tb,
            .lda = x.a.ld,
            .ldb = x.b.ld,
            .ldd = x.d.ld,
            .batches = x.d.batches,
            .a_batch = x.a.batch,
            .b_batch = x.b.batch,
            .d_batch = x.d.batch,
            .operand = dtype(x.a.type),
            .result = dtype(x.d.type),
            .curve = curve(epilogue),
            .alpha = 1,
            .beta = 0,
            .a = nullptr,
            .b = nullptr,
            .c = nullptr,
            .bias = (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 ? x.product.bias : nullptr,
            .d = nullptr,
            .inner = (epilogue & kAuxiliary) != 0 ? x.product.aux : nullptr,
            .inner_ld = x.product.aux_ld,
            .inner_batch = x.product.aux_batch,
            .a_sums = epilogue == CUBLASLT_EPILOGUE_BGRADA ? x.product.bias : nullptr,
            .b_sums = epilogue == CUBLASLT_EPILOGUE_BGRADB ? x.product.bias : nullptr};
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int requested, cublasLtMatmulHeuristicResult_t results[], int* returned) {
    FakeBlas& state = *fake_blas_state();
    ++state.proposals;
    *returned = 0;
    if (state.refuse) return CUBLAS_STATUS_NOT_SUPPORTED;
    const Described x{at(product), at(a), at(b), at(c), at(d)};
    const FakePreference& p = at(preference);
    if (p.c != p.d) return wrong("preferences");
    if (rounds_parts(x, p.reduction)) return wrong("parts of a half that are rounded before they are added");
    state.reductions = p.reduction;
    for (int i = 0; i < std::min(requested, kAlgorithms); ++i) {
        cublasLtMatmulHeuristicResult_t& result = results[i];
        const auto number = static_cast<std::uint64_t>(i);
        result = {.algo = {{kMagic, number, p.a, p.b, p.d, alignment(x.product.bias), fingerprint(x),
                            alignment(x.product.aux)}},
                  .workspaceSize = p.workspace < kWorkspaceUsed ? 0 : kWorkspaceUsed,
                  .state = CUBLAS_STATUS_SUCCESS,
                  .wavesCount = 1,
                  .reserved = {}};
        if (const cublasStatus_t status = check(x, result.algo); status != CUBLAS_STATUS_SUCCESS) return status;
        ++*returned;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
    result->workspaceSize = kWorkspaceUsed;
    return check({at(product), at(a), at(b), at(c), at(d)}, *algorithm);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t) {
    FakeBlas& state = *fake_blas_state();
    if (state.fail) return CUBLAS_STATUS_EXECUTION_FAILED;
    const Described x{at(product), at(a_layout), at(b_layout), at(c_layout), at(d_layout)};
    if (algorithm == nullptr) return wrong("a call without an algorithm");
    if (const cublasStatus_t status = check(x, *algorithm); status != CUBLAS_STATUS_SUCCESS) return status;
    const auto& words = algorithm->data;
    if (static_cast<int>(words[1]) == state.failing_algorithm) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!aligned(a, words[2]) || !aligned(b, words[3]) || !aligned(c, words[4]) || !aligned(d, words[4]) ||
        !aligned(x.product.bias, words[5]) || !aligned(x.product.aux, words[7]))
        return wrong("pointers that are less aligned than was said");
    if (workspace == nullptr || !aligned(workspace, 256) || workspace_bytes < kWorkspaceUsed)
        return wrong("the workspace");
    const auto in_result = [&](const void* operand, const FakeLayout& layout) {
        return overlap(d, extent(x.d), operand, extent(layout));
    };
    if (in_result(a, x.a) || in_result(b, x.b) || (c != d && in_result(c, x.c)) ||
        overlap(d, extent(x.d), workspace, workspace_bytes))
        return wrong("a result that overlaps an operand or the workspace");
    std::memset(workspace, 0xab, kWorkspaceUsed);
    ColumnMajor work = column_major(x);
    work.alpha = scalar(x.product, alpha);
    work.beta = scalar(x.product, beta);
    work.a = a;
    work.b = b;
    work.c = c;
    work.d = d;
    work.multiply();
    ++state.products;
    state.last_algorithm = static_cast<int>(words[1]);
    state.compute_type = x.product.compute;
    return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
