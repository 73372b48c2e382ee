// The kernels that a training of a GPT calls, as lines of the ledger. How products are put together from calls is
// matmul.cu's own. What else a program calls does not exist, and ends it.
#include <array>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include <headroom/bench/estimate/ledger.hpp>
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/cross_entropy/cross_entropy.hpp>
#include <headroom/kernels/device/probe.hpp>
#include <headroom/kernels/dropout/dropout.hpp>
#include <headroom/kernels/embedding/embedding.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/layer_norm/layer_norm.hpp>
#include <headroom/kernels/matmul/internal/activate.hpp>
#include <headroom/kernels/matmul/internal/tiled.hpp>
#include <headroom/kernels/norm/norm.hpp>
#include <headroom/kernels/optimizer/adamw.hpp>
#include <headroom/kernels/pointwise/compiled.hpp>
#include <headroom/kernels/random/random.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/kernels/rms_norm/rms_norm.hpp>
#include <headroom/kernels/rotary/rotary.hpp>
#include <headroom/kernels/step_control/step_control.hpp>

namespace headroom::kernels {

namespace {

using estimate::bytes_of;
using estimate::count;
using estimate::ledger_of;
using estimate::Work;

double number(std::int64_t i) { return static_cast<double>(i); }
double bytes(Dtype dtype) { return number(static_cast<std::int64_t>(size_of(dtype))); }

void count_product(CudaStream& stream, std::array<std::int64_t, 3> mnk, std::int64_t batches, Dtype operand,
                   Dtype result, bool adds, bool own) {
    const auto [m, n, k] = mnk;
    const double product = number(m) * number(n), operands = number(k) * (number(m) + number(n));
    const std::string rate = fmt::format("{}product {}", own ? "own " : "", name(operand));
    ledger_of(stream).add(
        fmt::format("{}product [{} x {} x {}] {} to {}{}", own ? "own " : "", m, n, k, name(operand), name(result),
                    adds ? ", added" : ""),
        rate,
        {.bytes = number(batches) * (operands * bytes(operand) + product * bytes(result) * (adds ? 2 : 1)),
         .operations = number(batches) * 2 * product * number(k)});
}

/// Pairs of a query and a key that it sees, of all batches and heads.
double pairs_of(const Sdpa& x) {
    const double hidden = x.causal ? number(x.queries) * number(x.queries - 1) / 2 : 0;
    return number(x.batch * x.heads) * (number(x.queries) * number(x.keys) - hidden);
}

/// Two products of a forward, five of a gradient; each array once, and a gradient's scratch written and read.
void count_attention(CudaStream& stream, const Sdpa& x) {
    const double queries = number(x.batch * x.heads * x.queries * x.width) * bytes(x.dtype),
                 keys = number(x.batch * x.key_heads * x.keys * x.width) * bytes(x.dtype),
                 lse = number(x.batch * x.heads * x.queries) * 4;
    const Work forward{.bytes = 2 * queries + 2 * keys + lse, .operations = 4 * number(x.width) * pairs_of(x)};
    const Work gradient{.bytes = 4 * queries + 4 * keys + lse + 2 * number(static_cast<std::int64_t>(x.scratch())),
                        .operations = 10 * number(x.width) * pairs_of(x),
                        .launches = 3};
    const char* const rate = x.gradient ? "attention gradient" : "attention";
    ledger_of(stream).add(fmt::format("{} [{}, {}, {}, {}]", rate, x.batch, x.queries, x.heads, x.width), rate,
                          x.gradient ? gradient : forward);
}

}  // namespace

std::string gemm_library(CudaStream&) { return "counted alone"; }

bool run_gemm(CudaStream& stream, const Gemm& g, const GemmCall& call) {
    const std::int64_t calls = g.calls() * g.batches;
    count_product(stream, {g.rows, g.columns, g.depth}, calls, g.operand, g.result, call.beta != 0, false);
    const double beside = number(g.rows * g.columns) * bytes(g.result);
    if (g.has_inner()) ledger_of(stream).add("inner, beside a product", "", {.bytes = beside, .launches = 0});
    return true;
}

void tiled_matmul(CudaStream& stream, const Problem& p) {
    count_product(stream, {p.m, p.n, p.k}, p.batches(), p.operand, p.result, p.beta != 0, true);
}

void activate(CudaStream& stream, Activation, const View& x, const View& y) { count(stream, "activation", {&x, &y}); }
void activate_backward(CudaStream& stream, Activation, const View& x, const View& dy, const View& y) {
    count(stream, "activation gradient", {&x, &dy, y.rank() == 0 ? nullptr : &y, &dy});
}
void add_bias(CudaStream& stream, Activation, const View& bias, const View& c) {
    count(stream, "bias", {&c, &bias, &c});
}

void AttentionPlan::run(CudaStream& stream, std::byte*) const {
    if (!library_) throw std::logic_error("estimate: attention that cuDNN does not take is not counted");
    count_attention(stream, *library_);
}
void AttentionGradientPlan::run(CudaStream& stream, std::byte*) const {
    if (!library_) throw std::logic_error("estimate: a gradient that cuDNN does not take is not counted");
    for_each_part(*library_, [&](const Sdpa& part, auto, auto) { count_attention(stream, part); });
}
std::string attention_library(CudaStream&) { return "counted as cuDNN's"; }

void copy(CudaStream& stream, const View& x, const View& y) {
    count(stream, x.dtype == y.dtype ? "copy" : "cast", {&x, &y});
}
void accumulate(CudaStream& stream, const View& x, const View& y, float, float beta) {
    count(stream, "accumulate", {&x, &y}, beta);
}
void fill(CudaStream& stream, double, const View& y) { count(stream, "fill", {&y}); }
void arange(CudaStream& stream, double, double, const View& y) { count(stream, "arange", {&y}); }

/// One pass each; the target's logit comes from the cache.
void CrossEntropyPlan::run(CudaStream& stream, std::byte*) const {
    count(stream, "cross_entropy", {&logits_, &targets_, &lse_}, 0, 2);
}
void cross_entropy_backward(CudaStream& stream, const View& logits, const View& targets, const ClassWeights&,
                            const CrossEntropyOptions&, const View& lse, const View&, const View& dlogits, float beta) {
    count(stream, "cross_entropy gradient", {&logits, &targets, &lse, &dlogits}, beta);
}

/// As many rows of the table as there are indices.
void embedding(CudaStream& stream, const View&, const View& ids, const View& y) {
    count(stream, "embedding", {&y, &ids, &y});
}
/// Indices are sorted in four passes of keys and positions; each row of dy is read, each of the table written.
void EmbeddingGradientPlan::run(CudaStream& stream, std::byte*) const {
    count(stream, "embedding gradient", {&dy_, &ids_, &dtable_}, beta_, 8);
}

void layer_norm(CudaStream& stream, const View& x, const View*, const View*, double, const View& y, const View& mean,
                const View& rstd) {
    count(stream, "layer_norm", {&x, &mean, &rstd, &y});
}
void LayerNormGradientPlan::run(CudaStream& stream, std::byte*) const {
    count(stream, "layer_norm gradient", {&x_, &dy_, &mean_, &rstd_, gradients_.x.view}, gradients_.x.beta, 2);
}

void rms_norm(CudaStream& stream, const View& x, const View*, double, const View& y, const View& rstd) {
    count(stream, "rms_norm", {&x, &rstd, &y});
}
void RmsNormGradientPlan::run(CudaStream& stream, std::byte*) const {
    count(stream, "rms_norm gradient", {&x_, &dy_, &rstd_, gradients_.x.view}, gradients_.x.beta, 2);
}
void rotary(CudaStream& stream, const Rotary&, const View& x, float beta, const View& y) {
    count(stream, "rotary", {&x, &y}, beta);
}

void dropout(CudaStream& stream, const RandomKey&, float, const View& x, const View& y) {
    count(stream, "dropout", {&x, &y});
}
void dropout_backward(CudaStream& stream, const RandomKey&, float, const View& dy, float beta, const View& dx) {
    count(stream, "dropout gradient", {&dy, &dx}, beta);
}
void dropout_add(CudaStream& stream, const RandomKey&, float, const View& branch, const View& x, const View& y) {
    count(stream, "dropout_add", {&branch, &x, &y});
}

void ReductionPlan::run(CudaStream& stream, std::byte*) const {
    count(stream, "reduction", {&x_, &y_}, beta_, scratch() > 0 ? 2 : 1);
}
void sum_backward(CudaStream& stream, const View& dy, double, const View& dx, float beta) {
    count(stream, "sum gradient", {&dy, &dx}, beta);
}
void SumOfSquaresPlan::run(CudaStream& stream, std::byte*) const { count(stream, "sum_of_squares", {&x_}, 0, 2); }

void adamw(CudaStream& stream, const AdamWStep&, const View&, const View&, const View&, const View& gradient,
           const View& parameter, const View& first, const View& second) {
    count(stream, "adamw", {&gradient, &parameter, &first, &second, &parameter, &first, &second});
}

void add_terms(CudaStream& stream, double, double, const View& state) { count(stream, "add_terms", {&state}); }
void begin_step(CudaStream& stream, const View& state) { count(stream, "begin_step", {&state}); }
void end_step(CudaStream& stream, const StepRule&, const View& state, const View&) {
    count(stream, "end_step", {&state});
}
void count_step(CudaStream& stream, const View&, const View& steps) { count(stream, "count_step", {&steps}); }

void normal(CudaStream& stream, const RandomKey&, float, float, const View& y) { count(stream, "normal", {&y}); }
void uniform(CudaStream& stream, const RandomKey&, float, float, const View& y) { count(stream, "uniform", {&y}); }
void probe(CudaStream&) {}

template <UnaryFunction F>
void map(CudaStream& stream, const F&, const View& x, const View& y) {
    count(stream, "map", {&x, &y});
}
template <BinaryFunction F>
void map(CudaStream& stream, const F&, const View& a, const View& b, const View& y) {
    count(stream, "map", {&a, &b, &y});
}
template <DifferentiableUnary F>
void map_backward(CudaStream& stream, const F&, const View& saved, const View& dy, float beta, const View& dx) {
    count(stream, "map gradient", {F::saves == Saves::nothing ? nullptr : &saved, &dy, &dx}, beta);
}
template <DifferentiableBinary F>
void map_backward_a(CudaStream& stream, const F&, const View&, const View& b, const View& dy, float beta,
                    const View& da) {
    count(stream, "map gradient", {&dy, F::saves == Saves::nothing ? nullptr : &b, &da}, beta);
}
template <DifferentiableBinary F>
void map_backward_b(CudaStream& stream, const F&, const View& a, const View&, const View& dy, float beta,
                    const View& db) {
    count(stream, "map gradient", {&dy, F::saves == Saves::nothing ? nullptr : &a, &db}, beta);
}
template struct Compiled<CudaStream, UnaryFunctions>;
template struct Compiled<CudaStream, BinaryFunctions>;
template struct Compiled<CudaStream, Activations>;

}  // namespace headroom::kernels
