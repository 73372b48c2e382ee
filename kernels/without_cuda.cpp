// In builds without CUDA: what the libraries call of the kernels of a GPU, whose streams nothing makes there. The
// emulator of tests has all of them and comes first.
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/channel_norm/channel_norm.hpp>
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/cross_entropy/cross_entropy.hpp>
#include <headroom/kernels/device/probe.hpp>
#include <headroom/kernels/dropout/dropout.hpp>
#include <headroom/kernels/embedding/embedding.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/gather/gather.hpp>
#include <headroom/kernels/layer_norm/layer_norm.hpp>
#include <headroom/kernels/matmul/internal/gemm.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
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
#include <headroom/kernels/reduce/internal/engine.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/kernels/resample/resample.hpp>
#include <headroom/kernels/rms_norm/rms_norm.hpp>
#include <headroom/kernels/roi_align/roi_align.hpp>
#include <headroom/kernels/rotary/rotary.hpp>
#include <headroom/kernels/scan/scan.hpp>
#include <headroom/kernels/softmax/softmax.hpp>
#include <headroom/kernels/sort/sort.hpp>
#include <headroom/kernels/step_control/step_control.hpp>
#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>
#include <headroom/kernels/triangle/triangle.hpp>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

[[noreturn]] void absent() { throw Error("cuda: this build of Headroom has no kernels for a GPU"); }

}  // namespace

void AttentionPlan::run(CudaStream&, std::byte*) const { absent(); }
void AttentionGradientPlan::run(CudaStream&, std::byte*) const { absent(); }
void ChannelMomentsPlan::run(CudaStream&, std::byte*) const { absent(); }
void channel_norm(CudaStream&, const View&, const ChannelNorm&, const View*, const View&) { absent(); }
void ChannelNormGradientPlan::run(CudaStream&, std::byte*) const { absent(); }
void update_running(CudaStream&, const View&, const View&, const Correction&, const View*, const RunningStatistics&) {
    absent();
}
void ConvolutionPlan::run(CudaStream&, std::byte*) const { absent(); }
void copy(CudaStream&, const View&, const View&) { absent(); }
void accumulate(CudaStream&, const View&, const View&, float, float) { absent(); }
void CrossEntropyPlan::run(CudaStream&, std::byte*) const { absent(); }
void cross_entropy_backward(CudaStream&, const View&, const View&, const ClassWeights&, const CrossEntropyOptions&,
                            const View&, const View&, const View&, float) {
    absent();
}
void probe(CudaStream&) { absent(); }
void dropout(CudaStream&, const RandomKey&, float, const View&, const View&) { absent(); }
void dropout_backward(CudaStream&, const RandomKey&, float, const View&, float, const View&) { absent(); }
void dropout_add(CudaStream&, const RandomKey&, float, const View&, const View&, const View&) { absent(); }
void embedding(CudaStream&, const View&, const View&, const View&) { absent(); }
void EmbeddingGradientPlan::run(CudaStream&, std::byte*) const { absent(); }
void fill(CudaStream&, double, const View&) { absent(); }
void arange(CudaStream&, double, double, const View&) { absent(); }
void causal_mask(CudaStream&, const View&) { absent(); }
void check_index(CudaStream&, const char*, const View&, std::int64_t) { absent(); }
void gather(CudaStream&, const View&, int, const View&, const View&) { absent(); }
void ScatterAddPlan::run(CudaStream&, std::byte*) const { absent(); }
void index_select(CudaStream&, const View&, int, const View&, const View&) { absent(); }
void IndexSelectGradientPlan::run(CudaStream&, std::byte*) const { absent(); }
void layer_norm(CudaStream&, const View&, const View*, const View*, double, const View&, const View&, const View&) {
    absent();
}
void LayerNormGradientPlan::run(CudaStream&, std::byte*) const { absent(); }
void save_matmul_choices(CudaStream&, const std::string&) { absent(); }
bool load_matmul_choices(CudaStream&, const std::string&) { absent(); }
void MatmulPlan::run(CudaStream&, std::byte*) const { absent(); }
void nms(CudaStream&, const Nms&, const View&) { absent(); }
void adamw(CudaStream&, const AdamWStep&, const View&, const View&, const View&, const View&, const View&, const View&,
           const View&) {
    absent();
}
void sgd(CudaStream&, const SgdStep&, const View&, const View&, const View&, const View&, const View*) { absent(); }
void where(CudaStream&, const View&, const View&, const View&, const View&) { absent(); }
void where_backward(CudaStream&, const View&, bool, const View&, float, const View&) { absent(); }
void max_pool(CudaStream&, const View&, const MaxPool&, const View&, const View&) { absent(); }
void max_pool_gradient(CudaStream&, const View&, const View&, const MaxPool&, float, const View&) { absent(); }
void race(CudaStream&, const RandomKey&, const View&, const View&) { absent(); }
void pick(CudaStream&, const RandomKey&, const View&, const View&, const View&) { absent(); }
void uniform(CudaStream&, const RandomKey&, float, float, const View&) { absent(); }
void normal(CudaStream&, const RandomKey&, float, float, const View&) { absent(); }
void random_integers(CudaStream&, const RandomKey&, std::int64_t, std::int64_t, const View&) { absent(); }
void gru_step(CudaStream&, const GruStep&) { absent(); }
void gru_step_gradient(CudaStream&, const GruStepGradient&) { absent(); }
void lstm_step(CudaStream&, const LstmStep&) { absent(); }
void lstm_step_gradient(CudaStream&, const LstmStepGradient&) { absent(); }
void check_last(CudaStream&, const char*, const View&, std::int64_t) { absent(); }
void states_before(CudaStream&, const View&, const View&, const Passage&, std::int64_t, const View&) { absent(); }
void ReductionPlan::run(CudaStream&, std::byte*) const { absent(); }
void ExtremumGradientPlan::run(CudaStream&, std::byte*) const { absent(); }
void sum_backward(CudaStream&, const View&, double, const View&, float) { absent(); }
void variance_backward(CudaStream&, const View&, const View&, const View&, double, const View&, float) { absent(); }
void argmax(CudaStream&, const View&, int, const View&) { absent(); }
void argmin(CudaStream&, const View&, int, const View&) { absent(); }
void resample(CudaStream&, const View&, const AxisMap&, const AxisMap&, float, const View&) { absent(); }
void rms_norm(CudaStream&, const View&, const View*, double, const View&, const View&) { absent(); }
void RmsNormGradientPlan::run(CudaStream&, std::byte*) const { absent(); }
void roi_align(CudaStream&, const View&, const View&, const RoiAlignOptions&, const View&) { absent(); }
void RoiAlignGradientPlan::run(CudaStream&, std::byte*) const { absent(); }
void rotary(CudaStream&, const Rotary&, const View&, float, const View&) { absent(); }
void CumsumPlan::run(CudaStream&, std::byte*) const { absent(); }
void softmax(CudaStream&, const View&, const View&) { absent(); }
void softmax_backward(CudaStream&, const View&, const View&, const View&, float) { absent(); }
void log_softmax(CudaStream&, const View&, const View&) { absent(); }
void log_softmax_backward(CudaStream&, const View&, const View&, const View&, float) { absent(); }
void OrderPlan::run(CudaStream&, std::byte*) const { absent(); }
void add_terms(CudaStream&, double, double, const View&) { absent(); }
void begin_step(CudaStream&, const View&) { absent(); }
void end_step(CudaStream&, const StepRule&, const View&, const View&) { absent(); }
void count_step(CudaStream&, const View&, const View&) { absent(); }
void SumOfSquaresPlan::run(CudaStream&, std::byte*) const { absent(); }
bool all_finite(CudaStream&, const View&, std::byte*) { absent(); }
void triangle(CudaStream&, const View&, const Triangle&, float, const View&) { absent(); }

template <UnaryFunction F>
void map(CudaStream&, const F&, const View&, const View&) {
    absent();
}
template <BinaryFunction F>
void map(CudaStream&, const F&, const View&, const View&, const View&) {
    absent();
}
template <DifferentiableUnary F>
void map_backward(CudaStream&, const F&, const View&, const View&, float, const View&) {
    absent();
}
template <DifferentiableBinary F>
void map_backward_a(CudaStream&, const F&, const View&, const View&, const View&, float, const View&) {
    absent();
}
template <DifferentiableBinary F>
void map_backward_b(CudaStream&, const F&, const View&, const View&, const View&, float, const View&) {
    absent();
}
template struct Compiled<CudaStream, AllFunctions>;

}  // namespace headroom::kernels
