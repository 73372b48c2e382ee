// What the stand-in for cuDNN computes of convolutions.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <headroom/tests/kernels/fake_cudnn/cudnn_frontend.h>
#include <headroom/tests/kernels/fake_cudnn/tensor.hpp>

namespace headroom_cudnn_frontend::graph {

TensorPtr Graph::convolve(Convolution::Pass pass, TensorPtr left, TensorPtr right, const Conv_attributes& attributes) {
    convolution_ = {pass, attributes, std::move(left), std::move(right), std::make_shared<Tensor_attributes>(),
                    {},   false};
    return convolution_.result;
}
TensorPtr Graph::conv_fprop(TensorPtr x, TensorPtr weight, const Conv_fprop_attributes& attributes) {
    return convolve(Convolution::forward, std::move(x), std::move(weight), attributes);
}
TensorPtr Graph::conv_dgrad(TensorPtr dy, TensorPtr weight, const Conv_dgrad_attributes& attributes) {
    return convolve(Convolution::data, std::move(dy), std::move(weight), attributes);
}
TensorPtr Graph::conv_wgrad(TensorPtr dy, TensorPtr x, const Conv_wgrad_attributes& attributes) {
    return convolve(Convolution::weight, std::move(dy), std::move(x), attributes);
}
TensorPtr Graph::go_on(const TensorPtr& x) {
    if (x != convolution_.result || convolution_.relu) throw std::invalid_argument("only behind the convolution");
    if (x->type != DataType_t::FLOAT) throw std::invalid_argument("a sum that is rounded before it is complete");
    convolution_.result = std::make_shared<Tensor_attributes>();
    return convolution_.result;
}
TensorPtr Graph::pointwise(TensorPtr a, TensorPtr b, const Pointwise_attributes& attributes) {
    if (attributes.mode != PointwiseMode_t::ADD) throw std::invalid_argument("two operands are added");
    convolution_.added.push_back(std::move(b));
    return go_on(a);
}
TensorPtr Graph::pointwise(TensorPtr x, const Pointwise_attributes& attributes) {
    if (attributes.mode != PointwiseMode_t::RELU_FWD) throw std::invalid_argument("one operand goes through a ReLU");
    const TensorPtr result = go_on(x);
    convolution_.relu = true;
    return result;
}

error_t Convolution::refusal() const {
    if (!result->output || result->type == DataType_t::NONE) return {"the result is no output"};
    for (const TensorPtr& x : {left, right, result}) {
        if (x->dim.size() != 4 || x->stride.size() != 4 || (x->dim[1] > 1 && x->stride[1] != 1))
            return {"not channels-last"};
    }
    if (attributes.padding.size() != 2 || attributes.stride.size() != 2 || attributes.dilation.size() != 2)
        return {"steps of two axes are needed"};
    return {};
}

error_t Convolution::refusal(DataType_t io, const std::unordered_map<std::int64_t, void*>& addresses) const {
    const Tensor written(*result, io, addresses);
    std::vector<Tensor> read{{*left, io, addresses}, {*right, io, addresses}};
    for (const TensorPtr& tensor : added) {
        const Tensor old(*tensor, io, addresses);
        if (!old.is(written)) read.push_back(old);
    }
    return {broken_rule(read, {written})};
}

void Convolution::compute(DataType_t io, const std::unordered_map<std::int64_t, void*>& addresses, Relu how) const {
    const Tensor a(*left, io, addresses), b(*right, io, addresses), c(*result, io, addresses);
    const Tensor &x = pass == forward  ? a
                      : pass == weight ? b
                                       : c,
                 &y = pass == forward ? c : a, &w = pass == weight ? c : b;
    std::vector<double> sums(static_cast<std::size_t>(c.dim[0] * c.dim[1] * c.dim[2] * c.dim[3]));
    const auto sum = [&](std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) -> double& {
        return sums[static_cast<std::size_t>(((i * c.dim[1] + j) * c.dim[2] + k) * c.dim[3] + l)];
    };
    const std::int64_t outputs = w.dim[0] / (x.dim[1] / w.dim[1]);  // of a group
    for (std::int64_t n = 0; n < x.dim[0]; ++n)
        for (std::int64_t o = 0; o < w.dim[0]; ++o)
            for (std::int64_t i = 0; i < w.dim[1]; ++i)
                for (std::int64_t at = 0; at < y.dim[2] * y.dim[3] * w.dim[2] * w.dim[3]; ++at) {
                    const std::int64_t s = at % w.dim[3], r = at / w.dim[3] % w.dim[2];
                    const std::int64_t q = at / w.dim[3] / w.dim[2] % y.dim[3], p = at / w.dim[3] / w.dim[2] / y.dim[3];
                    const std::int64_t row =
                        p * attributes.stride[0] + r * attributes.dilation[0] - attributes.padding[0];
                    const std::int64_t column =
                        q * attributes.stride[1] + s * attributes.dilation[1] - attributes.padding[1];
                    if (row < 0 || row >= x.dim[2] || column < 0 || column >= x.dim[3]) continue;
                    const std::int64_t channel = o / outputs * w.dim[1] + i;
                    if (pass == forward) sum(n, o, p, q) += x.get(n, channel, row, column) * w.get(o, i, r, s);
                    if (pass == data) sum(n, channel, row, column) += y.get(n, o, p, q) * w.get(o, i, r, s);
                    if (pass == weight) sum(o, i, r, s) += y.get(n, o, p, q) * x.get(n, channel, row, column);
                }
    for (std::int64_t i = 0; i < c.dim[0]; ++i)
        for (std::int64_t j = 0; j < c.dim[1]; ++j)
            for (std::int64_t k = 0; k < c.dim[2]; ++k)
                for (std::int64_t l = 0; l < c.dim[3]; ++l) {
                    double value = sum(i, j, k, l);
                    for (const TensorPtr& tensor : added) {
                        const Tensor more(*tensor, io, addresses);
                        const bool whole = more.dim == c.dim;
                        value += more.get(whole ? i : 0, j, whole ? k : 0, whole ? l : 0);
                    }
                    if (relu && !(std::isnan(value) && how != Relu::hides_nan)) value = value > 0 ? value : 0;
                    if (relu && how == Relu::saturates) value = std::min(value, 65504.0);
                    c.set(i, j, k, l, value);
                }
}

}  // namespace headroom_cudnn_frontend::graph
