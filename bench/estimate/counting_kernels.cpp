// The project's own kernels, as lines of the ledger. How products and convolutions are put together from calls is
// matmul.cu's and convolution.cu's own. All that kernels/without_cuda.cpp defines is here, too: one function that is
// missing would bring that source in, and the rest twice. How often these launch is compared with the kernels' own
// sources [`scripts/estimate_test`].
#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

#include <fmt/format.h>

#include <headroom/bench/estimate/ledger.hpp>
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/attention/internal/paths.hpp>
#include <headroom/kernels/channel_norm/channel_norm.hpp>
#include <headroom/kernels/convolution/internal/implicit.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/cross_entropy/cross_entropy.hpp>
#include <headroom/kernels/device/probe.hpp>
#include <headroom/kernels/dropout/dropout.hpp>
#include <headroom/kernels/embedding/embedding.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/gather/gather.hpp>
#include <headroom/kernels/layer_norm/layer_norm.hpp>
#include <headroom/kernels/matmul/internal/activate.hpp>
#include <headroom/kernels/matmul/internal/tiled.hpp>
#include <headroom/kernels/nms/nms.hpp>
#include <headroom/kernels/optimizer/adamw.hpp>
#include <headroom/kernels/optimizer/sgd.hpp>
#include <headroom/kernels/pointwise/compiled.hpp>
#include <headroom/kernels/pointwise/internal/all_functions.hpp>
#include <headroom/kernels/pool/max_pool.hpp>
#include <headroom/kernels/random/multinomial.hpp>
#include <headroom/kernels/random/random.hpp>
#include <headroom/kernels/recurrent/gru.hpp>
#include <headroom/kernels/recurrent/lstm.hpp>
#include <headroom/kernels/recurrent/recurrent.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/kernels/resample/resample.hpp>
#include <headroom/kernels/rms_norm/rms_norm.hpp>
#include <headroom/kernels/roi_align/roi_align.hpp>
#include <headroom/kernels/rotary/rotary.hpp>
#include <headroom/kernels/scan/scan.hpp>
#include <headroom/kernels/softmax/softmax.hpp>
#include <headroom/kernels/sort/internal/keys.hpp>
#include <headroom/kernels/sort/sort.hpp>
#include <headroom/kernels/step_control/step_control.hpp>
#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>
#include <headroom/kernels/triangle/triangle.hpp>

namespace headroom::kernels {

namespace {

using estimate::bytes_of;
using estimate::count;
using estimate::count_product;
using estimate::ledger_of;
using estimate::number;
using estimate::Work;

double bytes(Dtype dtype) { return number(static_cast<std::int64_t>(size_of(dtype))); }

double bytes_of_all(std::initializer_list<const View*> arrays) {
    double sum = 0;
    for (const View* array : arrays) sum += array->data != nullptr ? bytes_of(*array) : 0;
    return sum;
}

/// `products` of all queries and the keys that they see. Masks and lengths hide nothing here.
void count_attention(CudaStream& stream, const char* kernel, const View& q, const View& k, bool causal, int products,
                     Work work) {
    const Geometry g = geometry_of(q, k, causal);
    for (std::int64_t i = 0; i < g.queries; ++i) work.operations += 2.0 * products * number(g.width * g.visible(i));
    work.operations *= number(g.batch * g.heads);
    ledger_of(stream).add(fmt::format("{} {} {}", kernel, q.shape.to_string(), name(q.dtype)),
                          fmt::format("own product {}", name(q.dtype)), work);
}

/// Elements of an operand that are read: of an image each once, however many taps reach it.
double elements_of(const ImplicitOperand& operand, const ImplicitAxis& lines, const ImplicitAxis& depth, bool left) {
    if (!operand.image) return number(lines.size()) * number(depth.size());
    const std::int64_t images = left ? lines.outer : depth.outer, channels = left ? depth.inner : lines.inner;
    return number(images) * number(operand.height * operand.width) * number(channels);
}

/// Null for an array that is not wanted.
const View* given(const View& view) { return view.rank() == 0 ? nullptr : &view; }

/// Launches of a radix sort, and of the sums over what it sorted.
int launches_of(const SortPlan& sort) { return sort.count == 0 ? 0 : 3 * sort.passes(); }
int launches_of(const SegmentPlan& sums) { return sums.count == 0 || sums.columns == 0 ? 0 : sums.tiles() > 1 ? 2 : 1; }

}  // namespace

void tiled_matmul(CudaStream& stream, const Problem& p) {
    count_product(stream, "own product", {p.m, p.n, p.k}, p.batches(), p.operand, p.result, p.beta != 0);
}

/// Parts of the depth are written and read.
void multiply_implicitly(CudaStream& stream, const ImplicitProduct& p, std::byte*) {
    const double m = number(p.rows.size()), n = number(p.columns.size()), k = number(p.depth.size());
    const double read = elements_of(p.left, p.rows, p.depth, true) + elements_of(p.right, p.columns, p.depth, false);
    const double written = number(p.elements()) * bytes(p.result_dtype);
    ledger_of(stream).add(
        fmt::format("own convolution [{} x {} x {}] {} to {}", m, n, k, name(p.operand), name(p.result_dtype)),
        fmt::format("own product {}", name(p.operand)),
        {.bytes = number(p.groups) * read * bytes(p.operand) + written * (p.beta != 0 ? 2 : 1) +
                  2 * number(static_cast<std::int64_t>(p.scratch())),
         .operations = 2 * number(p.groups) * m * n * k,
         .results = p.beta != 0 ? 0 : written,
         .launches = p.parts > 1 ? 2 : 1});
}

void activate(CudaStream& stream, Activation, const View& x, const View& y) { count(stream, "activation", {&x, &y}); }
void activate_backward(CudaStream& stream, Activation, const View& x, const View& dy, const View& y) {
    count(stream, "activation gradient", {&x, &dy, y.rank() == 0 ? nullptr : &y, &dy});
}
void add_bias(CudaStream& stream, Activation, const View& bias, const View& c) {
    count(stream, "bias", {&c, &bias, &c});
}

void AttentionPlan::run(CudaStream& stream, std::byte* scratch) const {
    const Attention& a = attention_;
    if (library_ && attention_by_library(stream, *library_, a, scratch)) return;
    count_attention(stream, "own attention", a.q, a.k, a.causal, 2,
                    {.bytes = bytes_of_all({&a.q, &a.k, &a.v, &a.o, &a.lse}), .results = bytes_of(a.o)});
}
/// A pass over o and dy leaves a number for each of lse's. Then one kernel computes dk and dv, by four products, and
/// one dq, by three.
void AttentionGradientPlan::run(CudaStream& stream, std::byte* scratch) const {
    const AttentionGradient& a = gradient_;
    if (library_ && attention_gradient_by_library(stream, *library_, a, scratch)) return;
    const View& sums = a.lse;
    const double first = bytes_of_all({&a.o, &a.dy, &sums}),
                 each = bytes_of_all({&a.q, &a.k, &a.v, &a.dy, &a.lse, &sums});
    count_attention(stream, "own attention gradient", a.q, a.k, a.causal, 7,
                    {.bytes = first + 2 * each + bytes_of_all({&a.dq, &a.dk, &a.dv}), .launches = 3});
}

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
/// Each row of dy is read, each of the table written; the positions, sorted by index, are few bytes beside them.
void EmbeddingGradientPlan::run(CudaStream& stream, std::byte*) const {
    const int scaling = beta_ == 1 ? 0 : 1;
    count(stream, "embedding gradient", {&dy_, &ids_, &dtable_}, beta_,
          1 + launches_of(plan_.sort) + launches_of(plan_.sums) + scaling);
}

/// As many elements of x as there are indices.
void gather(CudaStream& stream, const View&, int, const View& index, const View& y) {
    count(stream, "gather", {&y, &index, &y});
}
void index_select(CudaStream& stream, const View&, int, const View& index, const View& y) {
    count(stream, "index_select", {&y, &index, &y});
}
void check_index(CudaStream& stream, const char*, const View& index, std::int64_t) {
    count(stream, "check_index", {&index});
}
/// y is scaled first, in a pass of its own.
void ScatterAddPlan::run(CudaStream& stream, std::byte*) const {
    int launches = beta_ == 1 ? 1 : 2;
    if (plan_.sorts()) {
        launches -= 1;
        for (std::int64_t line = 0; line < plan_.lines; line += plan_.lines_at_once()) {
            const std::int64_t some = std::min(plan_.lines_at_once(), plan_.lines - line);
            launches += 1 + launches_of(plan_.sort(some)) + launches_of(plan_.sums(some));
        }
    }
    count(stream, "scatter_add", {&source_, &index_, &y_, &y_}, beta_, launches);
}
void IndexSelectGradientPlan::run(CudaStream& stream, std::byte*) const {
    const int scaling = beta_ == 1 ? 0 : 1;
    count(stream, "index_select gradient", {&dy_, &index_, &dx_}, beta_,
          1 + launches_of(plan_.sort) + launches_of(plan_.sums) + scaling);
}
/// Keys are made of x word by word, and sorted; of more than are kept, the first ones are selected before.
void OrderPlan::run(CudaStream& stream, std::byte*) const {
    int launches = kept_ == length_ ? 0 : 1;
    for (std::int64_t line = 0; line < lines_; line += lines_at_once_) {
        SortPlan words = sort_;
        const std::int64_t lines = std::min(lines_at_once_, lines_ - line);
        words.count = lines * kept_;
        launches += (sort_key_bits(x_.dtype) + 31) / 32 * (1 + launches_of(words)) + 1;
        words.keys = lines;
        if (lines > 1) launches += 1 + launches_of(words);
    }
    count(stream, "order", {&x_, &y_}, 0, launches);
}
void nms(CudaStream& stream, const Nms& call, const View& y) {
    count(stream, "nms", {&call.boxes, &call.scores, &call.order, &y});
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

void ChannelMomentsPlan::run(CudaStream& stream, std::byte*) const {
    count(stream, "channel_norm moments", {&x_, &mean_, &variance_}, 0, 2);
}
void channel_norm(CudaStream& stream, const View& x, const ChannelNorm&, const View* residual, const View& y) {
    count(stream, "channel_norm", {&x, residual, &y});
}
/// A pass for the sums and one for the gradients, of which each computes the mask again.
void ChannelNormGradientPlan::run(CudaStream& stream, std::byte*) const {
    const View* const y = norm_.relu ? in_.y : nullptr;
    if (wants_sums()) count(stream, "channel_norm sums", {in_.x, &in_.dy, y}, 0, 2);
    if (!to_.x && !to_.residual) return;
    if (to_.x && to_.residual && to_.residual.beta != 0)
        count(stream, "channel_norm residual", {to_.residual.view}, 0, 0);
    const GradientTarget& last = to_.x ? to_.x : to_.residual;
    count(stream, "channel_norm gradient", {in_.x, &in_.dy, y, to_.x ? to_.residual.view : nullptr, last.view},
          last.beta);
}
void update_running(CudaStream& stream, const View& mean, const View& variance, const Correction&, const View*,
                    const RunningStatistics& running) {
    count(stream, "update_running",
          {&mean, &variance, &running.mean, &running.variance, &running.mean, &running.variance});
}

void max_pool(CudaStream& stream, const View& x, const MaxPool&, const View& y, const View& place) {
    count(stream, "max_pool", {&x, &y, &place});
}
void max_pool_gradient(CudaStream& stream, const View& dy, const View& place, const MaxPool&, float beta,
                       const View& dx) {
    count(stream, "max_pool gradient", {&dy, &place, &dx}, beta);
}
void resample(CudaStream& stream, const View& x, const AxisMap&, const AxisMap&, float beta, const View& y) {
    count(stream, "resample", {&x, &y}, beta);
}
void roi_align(CudaStream& stream, const View& x, const View& boxes, const RoiAlignOptions&, const View& y) {
    count(stream, "roi_align", {&x, &boxes, &y});
}
void RoiAlignGradientPlan::run(CudaStream& stream, std::byte*) const {
    count(stream, "roi_align gradient", {&dy_, &boxes_, &dx_}, beta_);
}

void check_last(CudaStream& stream, const char*, const View& last, std::int64_t) {
    count(stream, "check_last", {&last});
}
void states_before(CudaStream& stream, const View&, const View&, const Passage&, std::int64_t, const View& states) {
    count(stream, "states_before", {&states, &states});
}
void lstm_step(CudaStream& stream, const LstmStep& s) {
    count(stream, "lstm_step", {&s.gates, &s.gates, &s.hidden, &s.before, &s.c, &s.h, given(s.y)});
}
void lstm_step_gradient(CudaStream& stream, const LstmStepGradient& s) {
    count(stream, "lstm_step gradient", {&s.gates, &s.gates, &s.before, &s.c, &s.dy, &s.dh, &s.dh, &s.dc, &s.dc});
}
void gru_step(CudaStream& stream, const GruStep& s) {
    count(stream, "gru_step", {&s.gates, &s.gates, &s.n, &s.hidden, &s.h, &s.h, given(s.y)});
}
void gru_step_gradient(CudaStream& stream, const GruStepGradient& s) {
    count(stream, "gru_step gradient",
          {&s.gates, &s.gates, &s.n, &s.n, &s.hidden, &s.hidden, &s.dhidden, &s.before, &s.dy, &s.dh, &s.dh});
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
void variance_backward(CudaStream& stream, const View& x, const View& mean, const View& dvariance, double,
                       const View& dx, float beta) {
    count(stream, "variance gradient", {&x, &mean, &dvariance, &dx}, beta);
}
/// Ties are counted first.
void ExtremumGradientPlan::run(CudaStream& stream, std::byte* scratch) const {
    const View ties = count_ties(stream, scratch);
    count(stream, "extremum gradient", {&x_, &y_, &dy_, &ties, &dx_}, beta_);
}
void argmax(CudaStream& stream, const View& x, int, const View& y) { count(stream, "argmax", {&x, &y}); }
void argmin(CudaStream& stream, const View& x, int, const View& y) { count(stream, "argmin", {&x, &y}); }

void softmax(CudaStream& stream, const View& x, const View& y) { count(stream, "softmax", {&x, &y}); }
void softmax_backward(CudaStream& stream, const View& y, const View& dy, const View& dx, float beta) {
    count(stream, "softmax gradient", {&y, &dy, &dx}, beta);
}
void log_softmax(CudaStream& stream, const View& x, const View& y) { count(stream, "log_softmax", {&x, &y}); }
void log_softmax_backward(CudaStream& stream, const View& y, const View& dy, const View& dx, float beta) {
    count(stream, "log_softmax gradient", {&y, &dy, &dx}, beta);
}

void SumOfSquaresPlan::run(CudaStream& stream, std::byte*) const {
    count(stream, "sum_of_squares", {&x_}, 0, scratch() > 0 ? 2 : 1);
}

void adamw(CudaStream& stream, const AdamWStep&, const View&, const View&, const View&, const View& gradient,
           const View& parameter, const View& first, const View& second) {
    count(stream, "adamw", {&gradient, &parameter, &first, &second, &parameter, &first, &second});
}

void sgd(CudaStream& stream, const SgdStep&, const View&, const View&, const View& gradient, const View& parameter,
         const View* velocity) {
    count(stream, "sgd", {&gradient, &parameter, velocity, &parameter, velocity});
}

void add_terms(CudaStream& stream, double, double, const View& state) { count(stream, "add_terms", {&state}); }
/// An accumulator's call between forward and backward pass.
void begin_step(CudaStream& stream, const View& state) {
    count(stream, "begin_step", {&state});
    ledger_of(stream).end_forward();
}
void end_step(CudaStream& stream, const StepRule&, const View& state, const View&) {
    count(stream, "end_step", {&state});
}
void count_step(CudaStream& stream, const View&, const View& steps) { count(stream, "count_step", {&steps}); }

void normal(CudaStream& stream, const RandomKey&, float, float, const View& y) { count(stream, "normal", {&y}); }
void uniform(CudaStream& stream, const RandomKey&, float, float, const View& y) { count(stream, "uniform", {&y}); }
void random_integers(CudaStream& stream, const RandomKey&, std::int64_t, std::int64_t, const View& y) {
    count(stream, "random_integers", {&y});
}
void race(CudaStream& stream, const RandomKey&, const View& weights, const View& y) {
    count(stream, "race", {&weights, &y});
}
void pick(CudaStream& stream, const RandomKey&, const View& weights, const View& sums, const View& y) {
    count(stream, "pick", {&weights, &sums, &y});
}
void triangle(CudaStream& stream, const View& x, const Triangle&, float beta, const View& y) {
    count(stream, "triangle", {&x, &y}, beta);
}
void causal_mask(CudaStream& stream, const View& y) { count(stream, "causal_mask", {&y}); }
void CumsumPlan::run(CudaStream& stream, std::byte*) const { count(stream, "cumsum", {&x_, &y_}); }
bool all_finite(CudaStream& stream, const View& x, std::byte*) {
    count(stream, "all_finite", {&x});
    return true;
}
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
template struct Compiled<CudaStream, AllFunctions>;

void where(CudaStream& stream, const View& condition, const View& a, const View& b, const View& y) {
    count(stream, "where", {&y, &condition, &a, &b});
}
void where_backward(CudaStream& stream, const View& condition, bool, const View& dy, float beta, const View& dx) {
    count(stream, "where gradient", {&condition, &dy, &dx}, beta);
}

}  // namespace headroom::kernels
