// What the stand-in for cuDNN computes.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>

#include <headroom/kernels/convert.hpp>
#include <headroom/tests/kernels/fake_cudnn/cudnn_frontend.h>
#include <headroom/tests/kernels/fake_cudnn/tensor.hpp>
#include <headroom/tests/kernels/fake_runtime/fake_runtime.hpp>

namespace headroom_cudnn_frontend {

namespace {

using namespace headroom::kernels;

std::int64_t more_scratch = 0, unsaid_scratch = 0;
bool failing = false;
std::string cudart;
std::map<std::int64_t, std::vector<NumericalNote_t>> notes_of;
std::map<std::int64_t, Relu> relu_of;
std::function<void()> pass_building;
constexpr std::int64_t kLarge = 1, kUnbuilt = 2, kFast = 3, kFailing = 4, kThrowsWhenBuilt = 5, kThrows = 6;  // plans

struct Call {
    graph::SDPA_attributes attributes;
    Tensor q, k, v, o, stats, dy, dq, dk, dv;

    std::int64_t visible(std::int64_t query) const {
        const std::int64_t keys = k.dim[2];
        if (!attributes.right) return keys;
        const bool top = attributes.alignment == DiagonalAlignment_t::TOP_LEFT;
        return std::min(keys, query + 1 + *attributes.right + (top ? 0 : keys - q.dim[2]));
    }
    double score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
        double sum = 0;
        for (std::int64_t c = 0; c < q.dim[3]; ++c) sum += q.get(b, h, i, c) * k.get(b, h / group(), j, c);
        return static_cast<double>(attributes.scale) * sum;
    }
    std::int64_t group() const { return q.dim[1] / k.dim[1]; }

    void forward() const {
        for (std::int64_t b = 0; b < q.dim[0]; ++b)
            for (std::int64_t h = 0; h < q.dim[1]; ++h)
                for (std::int64_t i = 0; i < q.dim[2]; ++i) forward(b, h, i);
    }
    void forward(std::int64_t b, std::int64_t h, std::int64_t i) const {
        std::vector<double> weights;
        double sum = 0;
        for (std::int64_t j = 0; j < visible(i); ++j) sum += weights.emplace_back(std::exp(score(b, h, i, j)));
        for (std::int64_t c = 0; c < q.dim[3]; ++c) {
            double value = 0;
            for (std::size_t j = 0; j < weights.size(); ++j)
                value += weights[j] / sum * v.get(b, h / group(), static_cast<std::int64_t>(j), c);
            o.set(b, h, i, c, value);
        }
        if (stats.data != nullptr) stats.set(b, h, i, 0, std::log(sum));
    }

    /// `noise` stands for another order of sums.
    void backward(double noise) const {
        const std::int64_t width = q.dim[3], keys = k.dim[2];
        for (std::int64_t b = 0; b < q.dim[0]; ++b) {
            for (std::int64_t g = 0; g < k.dim[1]; ++g) {
                std::vector<double> key_sums(static_cast<std::size_t>(keys * width)), value_sums(key_sums);
                for (std::int64_t h = g * group(); h < (g + 1) * group(); ++h)
                    for (std::int64_t i = 0; i < q.dim[2]; ++i) backward(b, h, i, noise, key_sums, value_sums);
                for (std::int64_t j = 0; j < keys * width; ++j) {
                    dk.set(b, g, j / width, j % width, key_sums[static_cast<std::size_t>(j)]);
                    dv.set(b, g, j / width, j % width, value_sums[static_cast<std::size_t>(j)]);
                }
            }
        }
    }
    void backward(std::int64_t b, std::int64_t h, std::int64_t i, double noise, std::vector<double>& key_sums,
                  std::vector<double>& value_sums) const {
        const std::int64_t width = q.dim[3];
        std::vector<double> query_sums(static_cast<std::size_t>(width));
        double delta = 0;
        for (std::int64_t c = 0; c < width; ++c) delta += dy.get(b, h, i, c) * o.get(b, h, i, c);
        for (std::int64_t j = 0; j < visible(i); ++j) {
            const double p = std::exp(score(b, h, i, j) - stats.get(b, h, i, 0));
            double dp = 0;
            for (std::int64_t c = 0; c < width; ++c) dp += dy.get(b, h, i, c) * v.get(b, h / group(), j, c);
            const double ds = p * (dp - delta) * static_cast<double>(attributes.scale);
            for (std::int64_t c = 0; c < width; ++c) {
                const auto at = static_cast<std::size_t>(j * width + c);
                value_sums[at] += p * dy.get(b, h, i, c);
                key_sums[at] += ds * q.get(b, h, i, c);
                query_sums[static_cast<std::size_t>(c)] += ds * k.get(b, h / group(), j, c);
            }
        }
        for (std::int64_t c = 0; c < width; ++c)
            dq.set(b, h, i, c, query_sums[static_cast<std::size_t>(c)] * (1 + noise));
    }
};

}  // namespace

void take_more_scratch(std::int64_t bytes, std::int64_t unsaid) { more_scratch = bytes, unsaid_scratch = unsaid; }

void give_notes(std::int64_t plan, std::vector<NumericalNote_t> notes) { notes_of[plan] = std::move(notes); }

void give_relu(std::int64_t plan, Relu relu) { relu_of[plan] = relu; }

void take_time_to_build(std::function<void()> pass) { pass_building = std::move(pass); }

void fail_always(bool fail) { failing = fail; }

void find_cudart(const std::string& name) { cudart = name; }

cudaError_t detail::cuda_stream_get_capture_info(cudaStream_t, cudaStreamCaptureStatus* status, cudaGraph_t* graph) {
    if (!cudart.empty() && !dlopen(cudart.c_str(), RTLD_NOW))
        throw std::runtime_error("Unable to load any libcudart library");
    *status = cudaStreamCaptureStatusNone;
    *graph = nullptr;
    return cudaSuccess;
}

Executed& executed() {
    static Executed executed;
    return executed;
}

std::string broken_rule(const std::vector<Tensor>& read, const std::vector<Tensor>& written) {
    for (const auto* tensors : {&read, &written}) {
        for (const Tensor& x : *tensors) {
            if (!x.aligned()) return "a device pointer is not aligned to the tensor's 16-byte alignment";
        }
    }
    for (std::size_t i = 0; i < written.size(); ++i) {
        for (const Tensor& x : read) {
            if (written[i].overlaps(x)) return "a result overlaps an operand";
        }
        for (std::size_t j = 0; j < i; ++j) {
            if (written[i].overlaps(written[j])) return "two results overlap";
        }
    }
    return "";
}

namespace graph {

std::array<TensorPtr, 2> Graph::sdpa(TensorPtr q, TensorPtr k, TensorPtr v, const SDPA_attributes& attributes) {
    q_ = std::move(q), k_ = std::move(k), v_ = std::move(v), attributes_ = attributes;
    o_ = std::make_shared<Tensor_attributes>();
    if (attributes.stats) stats_ = std::make_shared<Tensor_attributes>();
    return {o_, stats_};
}

std::array<TensorPtr, 3> Graph::sdpa_backward(TensorPtr q, TensorPtr k, TensorPtr v, TensorPtr o, TensorPtr dy,
                                              TensorPtr stats, const SDPA_backward_attributes& attributes) {
    q_ = std::move(q), k_ = std::move(k), v_ = std::move(v), o_ = std::move(o), dy_ = std::move(dy);
    stats_ = std::move(stats), attributes_ = attributes, gradient_ = true;
    for (TensorPtr* tensor : {&dq_, &dk_, &dv_}) *tensor = std::make_shared<Tensor_attributes>();
    return {dq_, dk_, dv_};
}

error_t Graph::advance(Step from, Step to) {
    if (step_ != from) throw std::logic_error("a step out of order");
    step_ = to;
    return {};
}

Graph& Graph::deselect_numeric_notes(const std::vector<NumericalNote_t>& notes) {
    if (step_ != planned) throw std::logic_error("notes are deselected before there are plans");
    deselected_.insert(deselected_.end(), notes.begin(), notes.end());
    for (std::int64_t i = 0; i < kPlans; ++i) {
        const auto& has = notes_of[i];
        if (std::find_first_of(has.begin(), has.end(), notes.begin(), notes.end()) != has.end())
            barred_.at(static_cast<std::size_t>(i)) = true;
    }
    return *this;
}

error_t Graph::support(std::int64_t index) {
    bool& barred = barred_.at(static_cast<std::size_t>(index));
    const std::int64_t said = index == kLarge ? 0 : get_workspace_size_plan_at_index(index) - unsaid_scratch;
    barred = barred || (most_ >= 0 && said > most_);
    return {barred ? "a plan that was deselected" : ""};
}

error_t Graph::check_support() {
    advance(planned, supported);
    for (std::int64_t i = 0; i < kPlans; ++i) {
        if (support(i).is_good()) return {};
    }
    return {"No execution plans support the graph.\nfake plan 0\n  Reason: its notes\n  Reason: its scratch\n"};
}

error_t Graph::build_plans(BuildPlanPolicy_t) {
    if (step_ != supported) throw std::logic_error("a step out of order");
    for (std::int64_t i = 0; i < kPlans; ++i) {
        if (build_plan_at_index(i).is_good()) return {};
    }
    return {"No valid execution plans built."};
}

error_t Graph::validate() {
    advance(empty, validated);
    if (convolution_.pass != Convolution::none) return convolution_.refusal();
    const auto same = [](const TensorPtr& a, const TensorPtr& b) { return !a || !b || a->dim == b->dim; };
    if (io_ == DataType_t::NONE) return {"no data type"};
    if (!same(q_, o_) || !same(q_, dy_) || !same(q_, dq_) || !same(k_, v_) || !same(k_, dk_) || !same(k_, dv_))
        return {"dimensions differ"};
    for (const TensorPtr& result : {gradient_ ? dq_ : o_, gradient_ ? dk_ : o_, gradient_ ? dv_ : o_}) {
        if (!result->output) return {"a result is no output"};
    }
    if (stats_ && stats_->type != DataType_t::FLOAT) return {"statistics are not in f32"};
    return attention_refusal();
}

/// As the frontend's node/sdpa_support_surface.h and node/scaled_dot_product_flash_attention.h check; they say that
/// NVIDIA's kernels do not.
error_t Graph::attention_refusal() const {
    const std::int64_t width = q_->dim[3];
    if (width % 8 != 0) return {"hidden_dim should be multiple of 8"};
    if (width > 128) return {"hidden_dim should be less than or equal to 128"};  // beyond it, on some GPUs alone
    if (q_->dim[1] % k_->dim[1] != 0) return {"query heads are no multiple of key heads"};
    for (const TensorPtr& x : {q_, k_, v_, o_, dy_, dq_, dk_, dv_}) {
        if (!x) continue;
        if (x->stride[3] != 1) return {"the last axis is not contiguous"};
        for (std::size_t i = 0; i < 3; ++i) {  // 16 bytes are eight halves
            if (x->dim[i] > 1 && (x->stride[i] <= 0 || x->stride[i] % 8 != 0))
                return {"a stride is not a multiple of the tensor's 16-byte alignment"};
        }
    }
    const std::int64_t heads = q_->dim[1], queries = q_->dim[2];
    if (stats_ && stats_->stride != std::vector<std::int64_t>{heads * queries, queries, 1, 1})
        return {"statistics must be a packed BHSD tensor"};
    return {};
}

/// The largest numbers that NVIDIA's was seen to take: see sdpa.hpp.
std::int64_t Graph::get_workspace_size_plan_at_index(std::int64_t index) const {
    if (index == kLarge) return std::int64_t{1} << 40;
    if (convolution_.pass != Convolution::none) return 256 + more_scratch;
    const std::int64_t heads = q_->dim[0] * q_->dim[1], queries = q_->dim[2], keys = k_->dim[2];
    if (!gradient_) return 256 + more_scratch;
    return 256 + more_scratch + heads * queries * (attributes_.deterministic ? 2 * keys : 4 * q_->dim[3]);
}

error_t Graph::build_plan_at_index(std::int64_t index) {
    ++executed().builds;
    if (pass_building) pass_building();
    if (step_ != supported) throw std::logic_error("a step out of order");
    if (const error_t error = support(index); error.is_bad()) return error;
    if (index == kThrowsWhenBuilt) throw std::runtime_error("a function that cuDNN lacks");
    if (index == kUnbuilt) return {"a plan that can't be built"};
    candidate_ = index;
    return {};
}

error_t Graph::get_plan_name_at_index(std::int64_t index, std::string& name) const {
    name = "fake plan " + std::to_string(index);
    return {};
}

error_t Graph::execute_plan_at_index(cudnnHandle_t handle, std::unordered_map<std::int64_t, void*>& addresses,
                                     void* workspace, std::int64_t index) const {
    if (barred_.at(static_cast<std::size_t>(index))) return {"a plan that was deselected"};
    if (failing || index == kFailing) return {"a plan that fails"};
    if (index == kThrows) throw std::runtime_error("a function that the driver lacks");
    const auto tensor = [&](const TensorPtr& x) { return x ? Tensor(*x, io_, addresses) : Tensor{}; };
    if (convolution_.pass != Convolution::none) {
        if (const error_t error = convolution_.refusal(io_, addresses); error.is_bad()) return error;
    } else {
        std::vector<Tensor> read, written;
        for (const TensorPtr& x : {q_, k_, v_, dy_, gradient_ ? o_ : nullptr, gradient_ ? stats_ : nullptr}) {
            if (x) read.push_back(tensor(x));
        }
        for (const TensorPtr& x : {dq_, dk_, dv_, gradient_ ? nullptr : o_, gradient_ ? nullptr : stats_}) {
            if (x) written.push_back(tensor(x));
        }
        if (const error_t error{broken_rule(read, written)}; error.is_bad()) return error;
    }
    executed().last = index;
    ++executed().count;
    executed().sm_version = sm_version_;
    const auto bytes = static_cast<std::size_t>(get_workspace_size_plan_at_index(index));
    if (convolution_.pass != Convolution::none) {
        executed().deselected = deselected_;
        fake_runtime::enqueue(handle->stream, [=, io = io_, convolution = convolution_, relu = relu_of[index]] {
            fake_runtime::take_time(index == 0 ? 2.0f : index == kFast ? 1.0f : 0.5f);
            std::memset(workspace, 0xab, bytes);
            convolution.compute(io, addresses, relu);
        });
        return {};
    }
    const Call call{attributes_,    tensor(q_),  tensor(k_),  tensor(v_),  tensor(o_),
                    tensor(stats_), tensor(dy_), tensor(dq_), tensor(dk_), tensor(dv_)};
    static int calls = 0;
    const double noise = !gradient_ || attributes_.deterministic || ++calls % 2 == 0 ? 0 : 0x1p-6;
    fake_runtime::enqueue(handle->stream, [=, gradient = gradient_] {
        fake_runtime::take_time(index == 0 ? 2.0f : index == kFast ? 1.0f : 0.5f);
        std::memset(workspace, 0xab, bytes);
        gradient ? call.backward(noise) : call.forward();
    });
    return {};
}

}  // namespace graph

}  // namespace headroom_cudnn_frontend
