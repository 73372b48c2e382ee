#include <headroom/kernels/matmul/internal/gemm.hpp>

#include <algorithm>
#include <limits>

#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kMostInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostBatches = 65535;  // some versions of cuBLASLt refuse more for some products

struct Stored {
    bool transposed;
    std::int64_t ld;
};

/// How a matrix lies in memory by columns, or its transpose; nothing if neither does. The stride of an axis of size 1
/// does not count.
std::optional<Stored> stored(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
    if ((row == 1 || rows == 1) && (column >= rows || columns == 1)) return Stored{false, columns == 1 ? rows : column};
    if ((column == 1 || columns == 1) && row >= columns) return Stored{true, row};
    return {};
}

/// Sizes, orders and leading dimensions. c by rows is its transpose by columns, which is b^T a^T.
std::optional<Gemm> plan_matrices(const Problem& p) {
    const auto c = stored(p.n, p.m, p.c_column, p.c_row);
    if (!c) return {};
    const auto a = stored(p.m, p.k, p.a_row, p.a_depth), b = stored(p.k, p.n, p.b_depth, p.b_column);
    if (!a || !b) return {};
    Gemm gemm{.depth = p.k, .swapped = !c->transposed};
    gemm.ldd = c->ld;
    if (gemm.swapped) {
        gemm.rows = p.n;
        gemm.columns = p.m;
        gemm.transpose_a = !b->transposed;
        gemm.transpose_b = !a->transposed;
    } else {
        gemm.rows = p.m;
        gemm.columns = p.n;
        gemm.transpose_a = a->transposed;
        gemm.transpose_b = b->transposed;
    }
    gemm.lda = gemm.swapped ? b->ld : a->ld;
    gemm.ldb = gemm.swapped ? a->ld : b->ld;
    return gemm;
}

/// The longest batch axis becomes the library's, the others are gone through.
void plan_batches(const Problem& p, Gemm& gemm) {
    std::size_t longest = 0;
    for (std::size_t i = 1; i < static_cast<std::size_t>(p.batch_rank); ++i) {
        if (p.size[i] > p.size[longest]) longest = i;
    }
    std::size_t loops = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(p.batch_rank); ++i) {
        const std::int64_t a = gemm.swapped ? p.b_batch[i] : p.a_batch[i];
        const std::int64_t b = gemm.swapped ? p.a_batch[i] : p.b_batch[i];
        if (i == longest) {
            gemm.batches = p.size[i];
            gemm.a_batch = a;
            gemm.b_batch = b;
            gemm.d_batch = p.c_batch[i];
        } else {
            gemm.loops[loops++] = {p.size[i], a, b, p.c_batch[i]};
        }
    }
}

/// What epilogues are asked for behind: a c without gaps and with more than one row and depth, as bias epilogues of
/// some versions were wrong or refused beyond that. f64 serves gradient checks: all ours.
bool plain(const Gemm& gemm) {
    return gemm.ldd == gemm.rows && gemm.rows > 1 && gemm.depth > 1 && gemm.operand != Dtype::f64;
}

/// What cuBLASLt's epilogues do: a bias along D's rows, packed, of D's dtype; ReLU; the GELU that goes by tanh, whose
/// exactness is not documented and therefore trusted for halves only.
void plan_epilogue(const Problem& p, Gemm& gemm) {
    const bool fits = plain(gemm);
    gemm.bias = fits && p.has_bias && gemm.swapped && p.bias_step == 1 && p.n > 1 && p.bias_dtype == gemm.result;
    gemm.bias_remains = p.has_bias && !gemm.bias;
    const bool known = p.activation == Activation::none || p.activation == Activation::relu ||
                       (p.activation == Activation::gelu_tanh && is_half(gemm.result));
    (fits && known && !gemm.bias_remains ? gemm.activation : gemm.activation_remains) = p.activation;
}

/// The auxiliary matrix of GELU's epilogues has D's dtype; its leading dimension and batch stride are multiples of 8
/// (cublasLt.h at CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD), and algorithms are proposed for its address: one call. ReLU's
/// is a mask of bits, which is not what is asked for.
bool inner_fits(const Matmul& matmul, const Gemm& gemm) {
    if (matmul.activation != Activation::gelu_tanh || !is_half(gemm.result) || !plain(gemm)) return false;
    if (gemm.ldd % 8 != 0 || gemm.calls() != 1) return false;
    if (gemm.batches > 1 && gemm.d_batch % 8 != 0) return false;
    for (int i = 0; i < matmul.c.rank(); ++i) {
        if (matmul.c.size(i) > 1 && matmul.inner.stride(i) != matmul.c.stride(i)) return false;
    }
    return true;
}

/// A bias's gradient is packed and has D's dtype. Its exactness is not documented: trusted for halves only, as GELU's,
/// and behind the same results without gaps. No epilogue does anything besides.
bool sums_fit(const Matmul& matmul, const Gemm& gemm) {
    return is_half(gemm.operand) && matmul.sums.dtype == gemm.result && matmul.sums.stride(0) == 1 && !gemm.fused() &&
           gemm.ldd == gemm.rows && std::min({gemm.rows, gemm.columns, gemm.depth}) > 1 && gemm.batches == 1 &&
           gemm.calls() == 1;
}

void fuse(Gemm& gemm, const Matmul& matmul) {
    if (gemm.remains() || matmul.has_inner() == matmul.has_sums()) return;  // none of them, or both
    if (matmul.has_sums()) {
        gemm.sums = sums_fit(matmul, gemm);
    } else if (inner_fits(matmul, gemm)) {
        gemm.activation = matmul.activation;
        gemm.derivative = matmul.derivative;
        gemm.inner = !matmul.derivative;
    }
}

}  // namespace

Gemm Gemm::product() const {
    Gemm alone = *this;
    if (has_inner()) alone.activation = Activation::none;
    alone.inner = alone.derivative = alone.sums = false;
    return alone;
}

Gemm Gemm::without_epilogue() const {
    Gemm plain = *this;
    plain.bias_remains = bias || bias_remains;
    if (activation != Activation::none) plain.activation_remains = activation;
    plain.bias = false;
    plain.activation = Activation::none;
    return plain;
}

std::int64_t Gemm::calls() const {
    std::int64_t product = 1;
    for (const Loop& loop : loops) product *= loop.size;
    return product;
}

Gemm::Loop Gemm::offsets(std::int64_t index) const {
    Loop offset;
    for (const Loop& loop : loops) {
        const std::int64_t position = index % loop.size;
        index /= loop.size;
        offset.a += position * loop.a;
        offset.b += position * loop.b;
        offset.d += position * loop.d;
    }
    return offset;
}

std::size_t Gemm::result_bytes() const {
    const std::int64_t elements = (batches - 1) * d_batch + (columns - 1) * ldd + rows;
    return static_cast<std::size_t>(elements) * size_of(result);
}

std::optional<Gemm> plan_gemm(const Problem& p, const Matmul& matmul) {
    if (p.empty() || p.k == 0 || std::max({p.m, p.n, p.k}) > kMostInt) return {};
    std::optional<Gemm> gemm = plan_matrices(p);
    if (!gemm) return {};
    gemm->operand = p.operand;
    gemm->result = p.result;
    plan_batches(p, *gemm);
    if (gemm->batches > kMostBatches) return {};
    plan_epilogue(p, *gemm);
    fuse(*gemm, matmul);
    return gemm;
}

GemmCall call_of(const Problem& p, const Gemm& gemm, std::byte* workspace) {
    return {.a = gemm.swapped ? p.b : p.a,
            .b = gemm.swapped ? p.a : p.b,
            .bias = p.bias,
            .d = p.c,
            .beta = p.beta,
            .workspace = workspace};
}

}  // namespace headroom::kernels
