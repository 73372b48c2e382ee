// What libraries are asked for, as lines of the ledger: products of cuBLASLt, convolutions and attention of cuDNN.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <headroom/bench/estimate/ledger.hpp>
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/attention/internal/paths.hpp>
#include <headroom/kernels/attention/internal/sdpa.hpp>
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/convolution/internal/cudnn_convolution.hpp>
#include <headroom/kernels/matmul/internal/gemm.hpp>

namespace headroom::kernels {

namespace {

using estimate::count_product;
using estimate::ledger_of;
using estimate::number;
using estimate::Work;

double bytes(Dtype dtype) { return number(static_cast<std::int64_t>(size_of(dtype))); }

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
    const Work forward{
        .bytes = 2 * queries + 2 * keys + lse, .operations = 4 * number(x.width) * pairs_of(x), .results = queries};
    const Work gradient{.bytes = 4 * queries + 4 * keys + lse + 2 * number(static_cast<std::int64_t>(x.scratch())),
                        .operations = 10 * number(x.width) * pairs_of(x),
                        .launches = 3,
                        .queued = 1};
    const char* const kernel = x.gradient ? "attention gradient" : "attention";
    const char* const rate = x.gradient && !x.deterministic ? "attention gradient in any order" : kernel;
    ledger_of(stream).add(fmt::format("{} [{}, {}, {}, {}]", kernel, x.batch, x.queries, x.heads, x.width), rate,
                          x.gradient ? gradient : forward);
}

const char* name_of(ConvolutionPass pass) {
    return pass == ConvolutionPass::forward ? "convolution"
           : pass == ConvolutionPass::data  ? "convolution data"
                                            : "convolution weight";
}

}  // namespace

std::string gemm_library(CudaStream&) { return "counted alone"; }
void save_matmul_choices(CudaStream&, const std::string&) {}
bool load_matmul_choices(CudaStream&, const std::string&) { return false; }

bool run_gemm(CudaStream& stream, const Gemm& g, const GemmCall& call, const WithoutEpilogue&) {
    const std::int64_t calls = g.calls() * g.batches;
    count_product(stream, "product", {g.rows, g.columns, g.depth}, calls, g.operand, g.result, call.beta != 0);
    const double beside = number(g.rows * g.columns) * bytes(g.result);
    if (g.has_inner()) ledger_of(stream).add("inner, beside a product", "", {.bytes = beside, .launches = 0});
    return true;
}

/// Each array once; copies of images whose channels are padded are written and read. Partial sums of a weight's
/// gradient are left out: cuDNN's plans were seen to take few of those that scratch is reserved for.
bool convolution_by_library(CudaStream& stream, CudnnConvolution& c, const CudnnConvolutionData& data, std::byte*) {
    if (!data.aligned()) return false;
    const double x = number(c.images * c.h.input * c.w.input * c.groups * c.inputs) * bytes(c.dtype),
                 y = number(c.images * c.h.output * c.w.output * c.groups * c.outputs) * bytes(c.dtype),
                 weight = number(c.groups * c.outputs * c.inputs * c.h.kernel * c.w.kernel) * bytes(c.dtype);
    const double written = c.pass == ConvolutionPass::forward ? y : c.pass == ConvolutionPass::data ? x : weight;
    ledger_of(stream).add(fmt::format("{} [{}, {}, {}, {}] to [{}, {}, {}] by {} x {} {}{}", name_of(c.pass), c.images,
                                      c.groups * c.inputs, c.h.input, c.w.input, c.groups * c.outputs, c.h.output,
                                      c.w.output, c.h.kernel, c.w.kernel, name(c.dtype), c.adds ? ", added" : ""),
                          fmt::format("convolution {}", name(c.dtype)),
                          {.bytes = x + y + weight + (c.adds ? written : 0) + 2 * number(c.padded_copies()),
                           .operations = 2 * number(c.work()),
                           .results = c.adds ? 0 : written});
    return true;
}

std::string convolution_library(CudaStream&) { return "counted as cuDNN's"; }

bool attention_by_library(CudaStream& stream, const Sdpa& whole, const Attention& attention, std::byte*) {
    if (ready(attention)) count_attention(stream, whole);
    return ready(attention);
}

bool attention_gradient_by_library(CudaStream& stream, const Sdpa& whole, const AttentionGradient& gradient,
                                   std::byte*) {
    if (!ready(gradient)) return false;
    for_each_part(whole, [&](const Sdpa& part, auto, auto) { count_attention(stream, part); });
    return true;
}

void attention_not_asked(CudaStream&) {}
std::string attention_library(CudaStream&) { return "counted as cuDNN's"; }

}  // namespace headroom::kernels
