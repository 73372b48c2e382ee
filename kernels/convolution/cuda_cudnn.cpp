#include <headroom/kernels/convolution/internal/cuda_cudnn.hpp>

#include <array>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include <headroom/kernels/device/internal/cudnn_graph.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

namespace fe = ::cudnn_frontend;
using fe::NumericalNote_t;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Tensor_attributes>;

constexpr std::size_t kMostPlans = 512;

enum Id : std::int64_t { kX = 1, kWeight, kY, kBias, kSum };

fe::DataType_t type_of(Dtype dtype) {
    return dtype == Dtype::f16    ? fe::DataType_t::HALF
           : dtype == Dtype::bf16 ? fe::DataType_t::BFLOAT16
                                  : fe::DataType_t::FLOAT;
}

using Sizes = std::array<std::int64_t, 4>;

Sizes sizes_of(const CudnnConvolution& c, Id id) {
    switch (id) {
        case kX:
            return {c.images, c.groups * c.inputs, c.h.input, c.w.input};
        case kWeight:
            return {c.groups * c.outputs, c.inputs, c.h.kernel, c.w.kernel};
        case kY:
            return {c.images, c.groups * c.outputs, c.h.output, c.w.output};
        default:
            return {1, c.groups * c.outputs, 1, 1};
    }
}

void lay_out(Tensor_attributes& tensor, const CudnnConvolution& c, Id like, fe::DataType_t type) {
    const auto [n, channels, height, width] = sizes_of(c, like);
    tensor.set_dim({n, channels, height, width}).set_data_type(type);
    tensor.set_stride({channels * height * width, 1, channels * width, channels});
}

void describe(Tensor_attributes& tensor, const CudnnConvolution& c, Id id) {
    lay_out(tensor.set_uid(id), c, id, type_of(c.dtype));
}

TensorPtr tensor_of(Graph& graph, const CudnnConvolution& c, Id id) {
    Tensor_attributes attributes;
    describe(attributes, c, id);
    return graph.tensor(attributes);
}

template <class Attributes>
Attributes steps_of(const CudnnConvolution& c) {
    Attributes attributes;
    attributes.set_name("convolution")
        .set_padding({c.h.padding, c.w.padding})
        .set_stride({c.h.stride, c.w.stride})
        .set_dilation({c.h.dilation, c.w.dilation});
    return attributes;
}

Id written(const CudnnConvolution& c) {
    return c.pass == ConvolutionPass::forward ? kY : c.pass == ConvolutionPass::data ? kX : kWeight;
}

TensorPtr convolve(Graph& graph, const CudnnConvolution& c) {
    const auto tensor = [&](Id id) { return tensor_of(graph, c, id); };
    switch (c.pass) {
        case ConvolutionPass::forward:
            return graph.conv_fprop(tensor(kX), tensor(kWeight), steps_of<fe::graph::Conv_fprop_attributes>(c));
        case ConvolutionPass::data:
            return graph.conv_dgrad(tensor(kY), tensor(kWeight), steps_of<fe::graph::Conv_dgrad_attributes>(c));
        default:
            return graph.conv_wgrad(tensor(kY), tensor(kX), steps_of<fe::graph::Conv_wgrad_attributes>(c));
    }
}

/// A value on the way to the result, in f32: what is made of halves is rounded once.
void describe_between(Tensor_attributes& tensor, const CudnnConvolution& c) {
    lay_out(tensor, c, written(c), fe::DataType_t::FLOAT);
}

TensorPtr add(Graph& graph, const CudnnConvolution& c, const TensorPtr& a, const TensorPtr& b) {
    describe_between(*a, c);
    fe::graph::Pointwise_attributes attributes;
    return graph.pointwise(a, b, attributes.set_mode(fe::PointwiseMode_t::ADD).set_name("add"));
}

TensorPtr relu(Graph& graph, const CudnnConvolution& c, const TensorPtr& x) {
    describe_between(*x, c);
    fe::graph::Pointwise_attributes attributes;
    return graph.pointwise(x, attributes.set_mode(fe::PointwiseMode_t::RELU_FWD).set_name("relu"));
}

void describe_graph(Graph& graph, const CudnnConvolution& c) {
    graph.set_io_data_type(type_of(c.dtype));
    TensorPtr result = convolve(graph, c);
    if (c.has_bias) result = add(graph, c, result, tensor_of(graph, c, kBias));
    if (c.adds) {
        const TensorPtr old = tensor_of(graph, c, written(c));
        old->set_uid(kSum);
        result = add(graph, c, result, old);
    }
    if (c.relu) result = relu(graph, c, result);
    describe(result->set_output(true), c, written(c));
}

/// Notes of plans that break what `ConvolutionPlan` promises of digits: halves multiplied exactly and added in f32, f32
/// as it is.
std::vector<NumericalNote_t> unwanted_notes(const CudnnConvolution& c) {
    std::vector<NumericalNote_t> notes{NumericalNote_t::DOWN_CONVERT_INPUTS,
                                       NumericalNote_t::REDUCED_PRECISION_REDUCTION, NumericalNote_t::WINOGRAD,
                                       NumericalNote_t::FFT};
    if (!c.any_order) notes.push_back(NumericalNote_t::NONDETERMINISTIC);
    if (c.exact_f32()) notes.push_back(NumericalNote_t::TENSOR_CORE);
    return notes;
}

CudnnAddresses addresses_of(const CudnnConvolution& c, const CudnnConvolutionData& data) {
    CudnnAddresses addresses{{kX, data.x}, {kWeight, data.weight}, {kY, data.y}};
    if (c.has_bias) addresses[kBias] = const_cast<std::byte*>(data.bias);
    if (c.adds) addresses[kSum] = addresses[written(c)];
    return addresses;
}

}  // namespace

struct CudnnConvolutions::State {
    std::shared_ptr<const CudnnSession> session;
    CudnnGraphs<CudnnConvolution> made{kMostPlans};
};

CudnnConvolutions::CudnnConvolutions(std::shared_ptr<const CudnnSession> session)
    : state_(new State{.session = std::move(session)}) {}

CudnnConvolutions::~CudnnConvolutions() = default;

std::string CudnnConvolutions::version() const { return state_->session->text(); }

const CudnnPlan& CudnnConvolutions::plan(const CudnnConvolution& c) {
    return state_->made
        .get(*state_->session, c,
             [&](CudnnGraph& made) {
                 made.make(
                     *state_->session, c.scratch(), [&](Graph& graph) { describe_graph(graph, c); }, unwanted_notes(c));
             })
        .plan;
}

CudnnChoice& CudnnConvolutions::choice(const CudnnConvolution& c) { return state_->made.at(c).choice; }

void CudnnConvolutions::choose(const CudnnConvolution& c, const std::string& name) {
    state_->made.at(c).choose(name, c.scratch());
}

std::string CudnnConvolutions::choose_fastest(const CudnnConvolution& c, const CudnnConvolutionData& data,
                                              std::byte* scratch, const WorkTimer& timer,
                                              const std::function<bool()>& in_time) {
    if (c.adds) return "";  // each trial would add to the result once more
    return state_->made.at(c).choose_fastest(*state_->session, addresses_of(c, data), scratch, c.scratch(), timer,
                                             in_time);
}

void CudnnConvolutions::run(const CudnnConvolution& c, const CudnnConvolutionData& data, std::byte* scratch) {
    const auto refusal = state_->made.at(c).execute(*state_->session, addresses_of(c, data), scratch);
    if (refusal) throw DeviceError(fmt::format("convolution: cuDNN: {}: {}", *refusal, c.text()));
}

}  // namespace headroom::kernels
