#include <headroom/kernels/matmul/matmul.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/matmul/internal/activate.hpp>
#include <headroom/kernels/matmul/internal/blocked.hpp>
#include <headroom/kernels/matmul/internal/few_rows.hpp>
#include <headroom/kernels/matmul/internal/library.hpp>
#include <headroom/kernels/matmul/internal/panels.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

/// Multiply-adds below which oneDNN's call costs more than it gains.
constexpr std::int64_t kLibraryThreshold = 1 << 16;

constexpr std::size_t kTrialAlignment = 256;

/// That a view beside c is like it.
void check_beside(const char* what, const View& view, const View& c) {
    if (view.dtype != c.dtype)
        throw DtypeError(fmt::format("matmul: {} must be {} like c, got {}", what, name(c.dtype), name(view.dtype)));
    if (view.shape != c.shape)
        throw ShapeError(fmt::format("matmul: {} must have c's shape {}, got {}", what, c.shape.to_string(),
                                     view.shape.to_string()));
}

void check_activation(const Matmul& matmul) {
    if (matmul.has_inner()) check_beside("inner", matmul.inner, matmul.c);
    if (matmul.has_outer()) check_beside("outer", matmul.outer, matmul.c);
    if (matmul.has_inner() && matmul.beta != 0) throw ShapeError("matmul: with inner, beta must be 0");
    if (matmul.derivative && (!matmul.has_inner() || matmul.has_bias()))
        throw ShapeError("matmul: a derivative needs inner, and takes no bias");
    if (matmul.has_outer() && !matmul.derivative) throw ShapeError("matmul: only a derivative takes outer; use c");
}

void check_sums(const Matmul& matmul) {
    const View &a = matmul.a, &sums = matmul.sums;
    if (sums.dtype != a.dtype && sums.dtype != Dtype::f32)
        throw DtypeError(fmt::format("matmul: sums must be {} or f32, got {}", name(a.dtype), name(sums.dtype)));
    if (a.rank() != 2 || matmul.c.rank() != 2 || sums.size(0) != a.size(0)) {
        throw ShapeError(fmt::format("matmul: sums must be [m] beside matrices, got {} for a {} and c {}",
                                     sums.shape.to_string(), a.shape.to_string(), matmul.c.shape.to_string()));
    }
}

void check(const Matmul& matmul) {
    const Dtype a = matmul.a.dtype, b = matmul.b.dtype, c = matmul.c.dtype;
    if (!is_floating(a) || a != b) {
        throw DtypeError(fmt::format("matmul: operands must share a floating dtype, got {} and {}", name(a), name(b)));
    }
    if (c != a && !(is_half(a) && c == Dtype::f32)) {
        throw DtypeError(fmt::format("matmul: the result of {} operands must be {}{}, got {}", name(a), name(a),
                                     is_half(a) ? " or f32" : "", name(c)));
    }
    if (matmul.has_bias() && matmul.bias.dtype != a && matmul.bias.dtype != c) {
        throw DtypeError(
            fmt::format("matmul: the bias must be {} or {}, got {}", name(a), name(c), name(matmul.bias.dtype)));
    }
    check_activation(matmul);
    if (matmul.has_sums()) check_sums(matmul);
}

/// c *= beta, row by row.
void scale(const Problem& p) {
    float buffer[kChunk];
    for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t j = 0; j < p.n; j += kChunk) {
            const std::int64_t count = std::min(kChunk, p.n - j);
            std::byte* row = p.c_at(i * p.c_row + j * p.c_column);
            load(row, p.result, p.c_column, count, buffer);
            for (std::int64_t l = 0; l < count; ++l) buffer[l] *= p.beta;
            store(buffer, count, row, p.result, p.c_column);
        }
    }
}

}  // namespace

MatmulPlan::MatmulPlan(const Stream& stream, const Matmul& matmul) : matmul_(matmul) {
    check(matmul_);
    product_ = reduce(matmul_);
    if (matmul_.has_sums()) {
        View column = matmul_.sums;
        column.shape.push_back(1);
        column.strides.push_back(1);
        sums_.emplace(stream, matmul_.a, 1.0, column, matmul_.sums_beta);
    }
    on_cuda(stream) ? plan_cuda(stream) : plan_cpu(stream);
}

void MatmulPlan::plan_cpu(const Stream& stream) {
    if (product_.empty()) return;
    few_rows_ = takes_few_rows(product_);
    if (few_rows_) return;
    const int threads = threads_of(stream);
    const bool panels = takes_panels(product_);
    StreamState* const state = state_of(stream);
    if (state != nullptr && product_.m * product_.n * product_.k >= kLibraryThreshold &&
        !(panels && MatmulCache::is_slower(product_.operand)))
        library_ = state->get<MatmulCache>().find(threads, product_);
    scratch_ = library_ != nullptr ? library_->scratch()
               : panels            ? panels_scratch(threads, product_)
                                   : blocked_scratch(threads, product_);
}

/// The sums of rows that cuBLASLt writes, to be added to others, stand behind its workspace, and behind them the result
/// of algorithms that are tried. Which call of a product tries them depends on earlier calls: each has room for it.
void MatmulPlan::plan_cuda(const Stream& stream) {
    const ComputeOptions& options = compute_of(stream);
    if (sums_) scratch_ = sums_->scratch();
    if (options.own_kernels) return;
    gemm_ = plan_gemm(product_, matmul_);
    if (!gemm_) return;
    const std::size_t sums = gemm_->sums ? static_cast<std::size_t>(product_.m) * size_of(matmul_.sums.dtype) : 0;
    std::size_t bytes = kGemmWorkspace + sums;
    if (options.tune && product_.beta != 0 && gemm_->result_bytes() <= options.scratch_budget) {
        trial_ = (bytes + kTrialAlignment - 1) / kTrialAlignment * kTrialAlignment;
        bytes = trial_ + gemm_->result_bytes();
    }
    scratch_ = std::max(scratch_, bytes);
}

void MatmulPlan::run(CpuStream& stream, std::byte* scratch) const {
    if (sums_) sums_->run(stream, nullptr);
    if (product_.empty()) return;
    if (few_rows_) {
        few_rows_matmul(stream, product_);
    } else if (library_ == nullptr) {
        takes_panels(product_) ? panels_matmul(stream, product_, scratch) : blocked_matmul(stream, product_, scratch);
    } else {
        // oneDNN would compile one more primitive for each other beta: they are rare.
        if (product_.beta != 0 && product_.beta != 1) scale(product_);
        library_->run(stream, product_, scratch);
    }
    if (matmul_.has_inner()) finish_activation(stream, matmul_);
}

}  // namespace headroom::kernels
