#pragma once
// Stands in for the headers of cuDNN's frontend, in tests of what includes those: the classes that are used.
// A graph holds one attention, one convolution or one gradient, is checked as cuDNN checks, and is computed in f64 as
// it was described, on the stream of the handle, when that comes to it. A gradient that need not be deterministic has
// other bits each time. Of its plans 0 is the one that the heuristic prefers, 1 takes too much scratch, and says so
// when it is built, 2 can't be built and 4 fails; 3 is faster than 0; to build 5, and to execute 6, throws. Without an
// index, it is the plan that was built last. Steps come in the real one's order: there, notes that are deselected
// before there are plans deselect nothing, without a word; here, that throws, as does any other step that comes too
// early. A plan that was deselected, by a note or by its workspace, can't be supported, built or executed any more.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#define CUDNN_MAJOR 9
#define CUDNN_FRONTEND_MAJOR_VERSION 1
#define CUDNN_FRONTEND_MINOR_VERSION 32
#define CUDNN_FRONTEND_PATCH_VERSION 0

struct cudnnContext {
    cudaStream_t stream = nullptr;
};
using cudnnHandle_t = cudnnContext*;
enum cudnnStatus_t { CUDNN_STATUS_SUCCESS, CUDNN_STATUS_BAD_PARAM };
extern "C" std::size_t cudnnGetVersion();

namespace headroom_cudnn_frontend {

extern void* cudnn_dlhandle;

struct error_t {
    std::string message;
    bool is_bad() const { return !message.empty(); }
    bool is_good() const { return message.empty(); }
    const std::string& get_message() const { return message; }
};
struct DeviceProperties {
    error_t deserialize(const std::vector<std::uint8_t>&) { return {}; }
};

enum class DataType_t { NONE, FLOAT, HALF, BFLOAT16 };
enum class DiagonalAlignment_t { TOP_LEFT, BOTTOM_RIGHT };
enum class HeurMode_t { A };
enum class PointwiseMode_t { NOT_SET, ADD, RELU_FWD };
enum class NumericalNote_t {
    TENSOR_CORE,
    DOWN_CONVERT_INPUTS,
    REDUCED_PRECISION_REDUCTION,
    FFT,
    NONDETERMINISTIC,
    WINOGRAD
};
enum class BuildPlanPolicy_t { HEURISTICS_CHOICE };

/// What a plan's ReLU does with NaN and infinity, of which cuDNN says nothing: a test's.
enum class Relu { hides_nan, saturates, exact };

namespace detail {
inline cudnnStatus_t create_handle(cudnnHandle_t* handle) {
    *handle = new cudnnContext;
    return CUDNN_STATUS_SUCCESS;
}
inline void destroy_handle(cudnnHandle_t handle) { delete handle; }
inline cudnnStatus_t set_stream(cudnnHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}
inline const char* get_error_string(cudnnStatus_t) { return "a fake error"; }
/// Errors: std::runtime_error if the loader finds no libcudart (`find_cudart`).
cudaError_t cuda_stream_get_capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status, cudaGraph_t* graph);
}  // namespace detail

namespace graph {

struct Tensor_attributes {
    std::int64_t uid = 0;
    std::vector<std::int64_t> dim, stride;
    DataType_t type = DataType_t::NONE;
    bool output = false;

    Tensor_attributes& set_uid(std::int64_t value) { return uid = value, *this; }
    Tensor_attributes& set_dim(std::vector<std::int64_t> value) { return dim = std::move(value), *this; }
    Tensor_attributes& set_stride(std::vector<std::int64_t> value) { return stride = std::move(value), *this; }
    Tensor_attributes& set_data_type(DataType_t value) { return type = value, *this; }
    Tensor_attributes& set_output(bool value) { return output = value, *this; }
};
using TensorPtr = std::shared_ptr<Tensor_attributes>;

struct SDPA_attributes {
    float scale = 1;  ///< cuDNN's where none is given
    bool stats = false, deterministic = false;
    DiagonalAlignment_t alignment = DiagonalAlignment_t::TOP_LEFT;
    std::optional<std::int64_t> right;

    SDPA_attributes& set_name(const std::string&) { return *this; }
    SDPA_attributes& set_attn_scale(float value) { return scale = value, *this; }
    SDPA_attributes& set_generate_stats(bool value) { return stats = value, *this; }
    SDPA_attributes& set_deterministic_algorithm(bool value) { return deterministic = value, *this; }
    SDPA_attributes& set_diagonal_alignment(DiagonalAlignment_t value) { return alignment = value, *this; }
    SDPA_attributes& set_diagonal_band_right_bound(std::int64_t value) { return right = value, *this; }
};
using SDPA_backward_attributes = SDPA_attributes;

struct Conv_attributes {
    std::vector<std::int64_t> padding, stride, dilation;

    Conv_attributes& set_name(const std::string&) { return *this; }
    Conv_attributes& set_padding(std::vector<std::int64_t> value) { return padding = std::move(value), *this; }
    Conv_attributes& set_stride(std::vector<std::int64_t> value) { return stride = std::move(value), *this; }
    Conv_attributes& set_dilation(std::vector<std::int64_t> value) { return dilation = std::move(value), *this; }
};
using Conv_fprop_attributes = Conv_attributes;
using Conv_dgrad_attributes = Conv_attributes;
using Conv_wgrad_attributes = Conv_attributes;

struct Pointwise_attributes {
    PointwiseMode_t mode = PointwiseMode_t::NOT_SET;

    Pointwise_attributes& set_name(const std::string&) { return *this; }
    Pointwise_attributes& set_mode(PointwiseMode_t value) { return mode = value, *this; }
};

/// A convolution: two operands, what is added to the result, a ReLU, and that.
struct Convolution {
    enum Pass { none, forward, data, weight } pass = none;
    Conv_attributes attributes;
    TensorPtr left, right, result;
    std::vector<TensorPtr> added;
    bool relu = false;

    error_t refusal() const;
    /// Why it can't be executed on these addresses. What is added may be the result's old values, at the same places.
    error_t refusal(DataType_t io, const std::unordered_map<std::int64_t, void*>& addresses) const;
    /// In f64, as it is described, with a plan's ReLU.
    void compute(DataType_t io, const std::unordered_map<std::int64_t, void*>& addresses, Relu how) const;
};

class Graph {
  public:
    Graph& set_io_data_type(DataType_t type) { return io_ = type, *this; }
    Graph& set_intermediate_data_type(DataType_t) { return *this; }
    Graph& set_compute_data_type(DataType_t) { return *this; }
    Graph& set_sm_version(int version) { return sm_version_ = version, *this; }
    Graph& set_device_properties(std::shared_ptr<const DeviceProperties>) { return *this; }

    TensorPtr tensor(const Tensor_attributes& attributes) { return std::make_shared<Tensor_attributes>(attributes); }
    std::array<TensorPtr, 2> sdpa(TensorPtr q, TensorPtr k, TensorPtr v, const SDPA_attributes& attributes);
    std::array<TensorPtr, 3> sdpa_backward(TensorPtr q, TensorPtr k, TensorPtr v, TensorPtr o, TensorPtr dy,
                                           TensorPtr stats, const SDPA_backward_attributes& attributes);

    TensorPtr conv_fprop(TensorPtr x, TensorPtr weight, const Conv_fprop_attributes& attributes);
    TensorPtr conv_dgrad(TensorPtr dy, TensorPtr weight, const Conv_dgrad_attributes& attributes);
    TensorPtr conv_wgrad(TensorPtr dy, TensorPtr x, const Conv_wgrad_attributes& attributes);
    TensorPtr pointwise(TensorPtr a, TensorPtr b, const Pointwise_attributes& attributes);
    TensorPtr pointwise(TensorPtr x, const Pointwise_attributes& attributes);
    /// Errors: std::logic_error if there are no plans yet.
    Graph& deselect_numeric_notes(const std::vector<NumericalNote_t>& notes);
    /// Looked at by `check_support` and by `build_plan_at_index`.
    Graph& deselect_workspace_greater_than(std::int64_t bytes) { return most_ = bytes, *this; }

    error_t validate();
    error_t build_operation_graph(cudnnHandle_t = nullptr) { return advance(validated, described); }
    error_t create_execution_plans(std::initializer_list<HeurMode_t>) { return advance(described, planned); }
    /// Good if one plan may be used.
    error_t check_support();
    /// The first one that can be built.
    error_t build_plans(BuildPlanPolicy_t);
    std::int64_t get_workspace_size() const { return get_workspace_size_plan_at_index(candidate_); }
    error_t get_plan_name(std::string& name) const { return get_plan_name_at_index(candidate_, name); }
    error_t execute(cudnnHandle_t handle, std::unordered_map<std::int64_t, void*>& addresses, void* workspace) const {
        return execute_plan_at_index(handle, addresses, workspace, candidate_);
    }

    std::int64_t get_execution_plan_count() const { return kPlans; }
    error_t build_plan_at_index(std::int64_t index);
    std::int64_t get_workspace_size_plan_at_index(std::int64_t index) const;
    error_t get_plan_name_at_index(std::int64_t index, std::string& name) const;
    error_t execute_plan_at_index(cudnnHandle_t handle, std::unordered_map<std::int64_t, void*>& addresses,
                                  void* workspace, std::int64_t index) const;

  private:
    static constexpr std::int64_t kPlans = 7;
    enum Step { empty, validated, described, planned, supported } step_ = empty;
    std::int64_t candidate_ = -1;
    int sm_version_ = 0;
    std::array<bool, kPlans> barred_{};
    DataType_t io_ = DataType_t::NONE;
    SDPA_attributes attributes_;
    bool gradient_ = false;
    TensorPtr q_, k_, v_, o_, stats_, dy_, dq_, dk_, dv_;
    Convolution convolution_;
    std::vector<NumericalNote_t> deselected_;
    std::int64_t most_ = -1;  ///< bytes of workspace, if 0 or more

    /// Errors: std::logic_error if the last step was another one.
    error_t advance(Step from, Step to);
    /// Why NVIDIA's has no attention of this description.
    error_t attention_refusal() const;
    error_t support(std::int64_t index);
    /// Behind the convolution: f32 before, another tensor after.
    TensorPtr go_on(const TensorPtr& x);
    TensorPtr convolve(Convolution::Pass pass, TensorPtr left, TensorPtr right, const Conv_attributes& attributes);
};

}  // namespace graph

/// What passes whenever a plan is built, as time on a test's clock; NVIDIA's take about a second. Empty: nothing.
void take_time_to_build(std::function<void()> pass);
/// How much more scratch plans take from now on, and how much of that they say only when they are built: a test's.
void take_more_scratch(std::int64_t bytes, std::int64_t unsaid = 0);
/// The notes of a plan from now on: a test's.
void give_notes(std::int64_t plan, std::vector<NumericalNote_t> notes);
/// The ReLU of a plan from now on, in place of one that hides NaN: a test's.
void give_relu(std::int64_t plan, Relu relu);
/// The name by which the frontend opens a shared libcudart from now on, as the loader finds it; empty: it has one. A
/// test's.
void find_cudart(const std::string& name);
/// Whether every plan fails from now on: a test's.
void fail_always(bool fail);
/// The index of the plan that was executed last, the number of executions, and of plans that were to be built.
struct Executed {
    std::int64_t last = -1, count = 0, builds = 0;
    int sm_version = 0;                       ///< that the plan was made for
    std::vector<NumericalNote_t> deselected;  ///< of a convolution
};
Executed& executed();

}  // namespace headroom_cudnn_frontend
