// How a convolution on a GPU is put together from the library's call and the project's own kernels.
#include <headroom/kernels/convolution/convolution.hpp>

#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/pointwise/activations.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>

namespace headroom::kernels {

namespace {

/// By cuDNN, and what that leaves to us; false if it is missing or refuses.
bool by_library(CudaStream& stream, const ConvolutionProblem& p, CudnnConvolution library, std::byte* scratch) {
    const ConvolutionArray& written = p.written();
    const bool adds = p.beta != 0 && !library.adds;
    const bool behind = adds || written.dtype != p.operand;
    CudnnConvolutionData data{.x = p.x.data, .weight = p.weight.data, .y = p.y.data};
    if (library.has_bias) data.bias = p.bias;
    if (behind) data.written(p.pass) = scratch;
    if (library.relu) data.trial = scratch;
    if (!convolution_by_library(stream, library, data, scratch + bytes_behind(p, library))) return false;
    const View result = contiguous_view(written.data, written.dtype, {p.written_elements()});
    if (behind) {
        accumulate(stream, contiguous_view(scratch, p.operand, {p.written_elements()}), result, 1, p.beta);
    }
    if (p.has_bias && !library.has_bias) {  // cuDNN has no plan that adds one to a data pass of stride 2
        const std::int64_t channels = p.groups * p.inputs;
        const View rows = contiguous_view(written.data, written.dtype, {p.written_elements() / channels, channels});
        const View bias = contiguous_view(const_cast<std::byte*>(p.bias), p.bias_dtype, {channels});
        map(stream, Add{}, rows, bias, rows);
    }
    if (p.activation == Activation::relu && !library.relu) map(stream, Relu{}, result, result);
    return true;
}

}  // namespace

void ConvolutionPlan::run(CudaStream& stream, std::byte* scratch) const {
    if (problem_.empty() || (cudnn_ && by_library(stream, problem_, *cudnn_, scratch))) return;
    multiply_implicitly(stream, product_, scratch);
}

}  // namespace headroom::kernels
