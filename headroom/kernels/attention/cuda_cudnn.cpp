#include <headroom/kernels/attention/internal/cuda_cudnn.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/memory/shared_library.hpp>

// Its functions are looked up in cudnn_dlhandle. Under a name of its own, since a program that links us may hold
// another version of the frontend, or one that is linked to cuDNN.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#define cudnn_frontend headroom_cudnn_frontend
#include <cudnn_frontend.h>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // set once, by open_once
}

namespace headroom::kernels {

namespace {

namespace fe = ::cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Tensor_attributes>;

constexpr std::size_t kOldest = 91501;           // before it, the frontend pads by copies from the host
constexpr std::size_t kMostPlans = 64;           // each takes memory, and a second
constexpr std::int64_t kMostTried = 8;           // of the plans for one shape
constexpr std::size_t kOldestBlackwell = 91801;  // with a deterministic gradient

enum Id : std::int64_t { kQ = 1, kK, kV, kO, kLse, kDy, kDq, kDk, kDv };

std::string text_of(std::size_t version) {
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

[[noreturn]] void unusable(const std::string& why) { throw DeviceError(fmt::format("attention: {}", why)); }

/// The frontend keeps functions in static variables, so that a process has one cuDNN.
std::size_t open_once(const std::vector<std::string>& libraries) {
    static const std::size_t version = [&] {
        const memory::SharedLibrary library(
            "attention: cuDNN", libraries,
            fmt::format("install NVIDIA's cuDNN {} (Python package nvidia-cudnn-cu{}) and put its folder into "
                        "LD_LIBRARY_PATH",
                        CUDNN_MAJOR, CUDART_VERSION / 1000));
        decltype(&::cudnnGetVersion) get_version = nullptr;
        library.find(get_version, "cudnnGetVersion");
        const std::size_t found = get_version();
        if (found < kOldest || found / 10000 != CUDNN_MAJOR) {
            unusable(fmt::format("cuDNN {} does not do: {} or newer of version {} is needed", text_of(found),
                                 text_of(kOldest), CUDNN_MAJOR));
        }
        fe::cudnn_dlhandle = library.handle();
        return found;
    }();
    return version;
}

struct Rows {
    std::int64_t heads, length;
    const Sdpa::Strides& strides;
};

/// Ours is [batch, position, head, width], cuDNN's [batch, head, position, width].
void describe(Tensor_attributes& tensor, const Sdpa& x, Id id, const Rows& rows) {
    const auto& [batch, position, head] = rows.strides;
    tensor.set_uid(id).set_dim({x.batch, rows.heads, rows.length, x.width}).set_stride({batch, head, position, 1});
}

TensorPtr tensor_of(Graph& graph, const Sdpa& x, Id id, const Rows& rows) {
    Tensor_attributes attributes;
    describe(attributes, x, id, rows);
    return graph.tensor(attributes);
}

void describe_lse(Tensor_attributes& tensor, const Sdpa& x) {
    tensor.set_uid(kLse).set_dim({x.batch, x.heads, x.queries, 1});
    tensor.set_stride({x.heads * x.queries, x.queries, 1, 1}).set_data_type(fe::DataType_t::FLOAT);
}

template <class Attributes>
void set_mask(Attributes& attributes, const Sdpa& x) {
    if (!x.causal) return;
    // Both mean the same if there are as many keys as queries; the first is what most kernels were made for.
    attributes.set_diagonal_alignment(x.queries == x.keys ? fe::DiagonalAlignment_t::TOP_LEFT
                                                          : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
    attributes.set_diagonal_band_right_bound(0);
}

void add_forward(Graph& graph, const Sdpa& x) {
    const TensorPtr q = tensor_of(graph, x, kQ, {x.heads, x.queries, x.q});
    const TensorPtr k = tensor_of(graph, x, kK, {x.key_heads, x.keys, x.k});
    const TensorPtr v = tensor_of(graph, x, kV, {x.key_heads, x.keys, x.v});
    fe::graph::SDPA_attributes attributes;
    attributes.set_name("attention").set_attn_scale(x.scale).set_generate_stats(x.stats);
    set_mask(attributes, x);
    const auto [o, lse] = graph.sdpa(q, k, v, attributes);
    describe(o->set_output(true), x, kO, {x.heads, x.queries, x.o});
    if (x.stats) describe_lse(lse->set_output(true), x);
}

void add_gradient(Graph& graph, const Sdpa& x) {
    const TensorPtr q = tensor_of(graph, x, kQ, {x.heads, x.queries, x.q});
    const TensorPtr k = tensor_of(graph, x, kK, {x.key_heads, x.keys, x.k});
    const TensorPtr v = tensor_of(graph, x, kV, {x.key_heads, x.keys, x.v});
    const TensorPtr o = tensor_of(graph, x, kO, {x.heads, x.queries, x.o});
    const TensorPtr dy = tensor_of(graph, x, kDy, {x.heads, x.queries, x.dy});
    Tensor_attributes stats;
    describe_lse(stats, x);
    const TensorPtr lse = graph.tensor(stats);
    fe::graph::SDPA_backward_attributes attributes;
    attributes.set_name("attention gradient").set_attn_scale(x.scale).set_deterministic_algorithm(x.deterministic);
    set_mask(attributes, x);
    const auto [dq, dk, dv] = graph.sdpa_backward(q, k, v, o, dy, lse, attributes);
    describe(dq->set_output(true), x, kDq, {x.heads, x.queries, x.dq});
    describe(dk->set_output(true), x, kDk, {x.key_heads, x.keys, x.dk});
    describe(dv->set_output(true), x, kDv, {x.key_heads, x.keys, x.dv});
}

using Addresses = std::unordered_map<std::int64_t, void*>;

Addresses addresses_of(const Sdpa& x, const SdpaData& data) {
    Addresses addresses{{kQ, data.q}, {kK, data.k}, {kV, data.v}, {kO, data.o}};
    if (x.stats || x.gradient) addresses[kLse] = data.lse;
    if (x.gradient) addresses.insert({{kDy, data.dy}, {kDq, data.dq}, {kDk, data.dk}, {kDv, data.dv}});
    return addresses;
}

/// Its first line, and the first reason that cuDNN gives: more lines say the same of each kernel that was tried.
std::string words_of(fe::error_t error) {
    const std::string text = error.get_message();
    const std::string first = text.substr(0, text.find('\n'));
    const std::size_t reason = text.find("Reason: ", first.size());
    if (reason == std::string::npos) return first;
    const std::size_t line = text.rfind('\n', reason) + 1;
    return fmt::format("{} {}", first, text.substr(line, text.find('\n', reason) - line));
}

/// Its steps, until one refuses; the refusal, or nothing.
std::string build(Graph& graph, cudnnHandle_t handle) {
    const auto steps = {
        +[](Graph& g, cudnnHandle_t) { return g.validate(); },
        +[](Graph& g, cudnnHandle_t h) { return h ? g.build_operation_graph(h) : g.build_operation_graph(); },
        +[](Graph& g, cudnnHandle_t) { return g.create_execution_plans({fe::HeurMode_t::A}); },
        +[](Graph& g, cudnnHandle_t) { return g.check_support(); },
        +[](Graph& g, cudnnHandle_t) { return g.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE); }};
    for (const auto& step : steps) {
        const fe::error_t error = step(graph, handle);
        if (error.is_bad()) return words_of(error);
    }
    return "";
}

/// What `call` refuses. The frontend throws where cuDNN or CUDA's driver lacks a function.
template <class Call>
std::optional<std::string> refusal_of(Call call) {
    try {
        const fe::error_t error = call();
        return error.is_bad() ? std::optional(words_of(error)) : std::nullopt;
    } catch (const std::exception& error) {
        return error.what();
    }
}

}  // namespace

struct Cudnn::Made {
    std::unique_ptr<Graph> graph;
    Plan plan;
    std::int64_t index = -1;  // of the plan: the frontend by itself executes whichever was built last
    Choice choice;

    std::size_t workspace(std::int64_t i) const {
        return static_cast<std::size_t>(graph->get_workspace_size_plan_at_index(i));
    }
    /// True if it can be made and keeps to the scratch.
    bool fits(std::int64_t i, std::size_t scratch) const {
        return !refusal_of([&] { return graph->build_plan_at_index(i); }) && workspace(i) <= scratch;
    }
    std::string name(std::int64_t i) const {
        std::string text;
        return graph->get_plan_name_at_index(i, text).is_bad() ? "" : text;
    }
    /// The index of that name, which plans have before they are built.
    std::optional<std::int64_t> find(const std::string& wanted) const {
        for (std::int64_t i = 0; i < graph->get_execution_plan_count(); ++i) {
            if (name(i) == wanted) return i;
        }
        return std::nullopt;
    }
    void take(std::int64_t i) {
        index = i;
        plan.name = name(i);
        plan.scratch = workspace(i);
    }
    std::optional<std::string> execute(cudnnHandle_t handle, Addresses addresses, std::byte* scratch,
                                       std::int64_t i) const {
        return refusal_of([&] { return graph->execute_plan_at_index(handle, addresses, scratch, i); });
    }
};

struct Cudnn::State {
    std::size_t version = 0;
    int capability = 0;
    cudnnHandle_t handle = nullptr;
    std::shared_ptr<const fe::DeviceProperties> absent;  // a GPU that is not there
    std::map<Sdpa, Made> made;
    Plan too_many;

    ~State() {
        made.clear();
        if (handle) fe::detail::destroy_handle(handle);
    }
    /// Why it is not even asked, or nothing.
    std::string reserve(const Sdpa& x) const {
        if (!x.gradient || !x.deterministic || capability / 10 == 9) return "";
        if (capability / 10 == 10 && version >= kOldestBlackwell) return "";
        return fmt::format("no deterministic gradient by cuDNN {} on compute capability {}.{}", text_of(version),
                           capability / 10, capability % 10);
    }
    void make(const Sdpa& x, Made& to) const {
        to.plan.refusal = reserve(x);
        if (!to.plan.refusal.empty()) return;
        to.graph = std::make_unique<Graph>();
        Graph& graph = *to.graph;
        graph.set_io_data_type(x.dtype == Dtype::f16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
            .set_intermediate_data_type(fe::DataType_t::FLOAT)
            .set_compute_data_type(fe::DataType_t::FLOAT)
            .set_sm_version(capability);
        if (absent) graph.set_device_properties(absent);
        x.gradient ? add_gradient(graph, x) : add_forward(graph, x);
        to.plan.refusal = build(graph, handle);
        if (!to.plan.refusal.empty()) return;
        std::string preferred;
        const auto index = graph.get_plan_name(preferred).is_bad() ? std::nullopt : to.find(preferred);
        if (index) to.take(*index);
        if (!index) {
            to.plan.refusal = "cuDNN has no name for its plan";
        } else if (to.plan.scratch > x.scratch()) {
            to.plan.refusal =
                fmt::format("{} takes {} bytes of scratch, more than {}", to.plan.name, to.plan.scratch, x.scratch());
        }
    }
};

std::vector<std::string> cudnn_libraries() {
    const std::string name = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
#ifdef HEADROOM_CUDNN_FOLDER
    return {name, HEADROOM_CUDNN_FOLDER + name};
#else
    return {name};
#endif
}

Cudnn::Cudnn(const Gpu& gpu, const std::vector<std::string>& libraries) : state_(std::make_unique<State>()) {
    state_->version = open_once(libraries);
    state_->capability = gpu.capability;
    if (!gpu.description.empty()) {
        auto absent = std::make_shared<fe::DeviceProperties>();
        const fe::error_t error = absent->deserialize({gpu.description.begin(), gpu.description.end()});
        if (error.is_bad()) unusable(fmt::format("cuDNN takes no such GPU: {}", words_of(error)));
        state_->absent = std::move(absent);
        return;
    }
    cudnnStatus_t status = fe::detail::create_handle(&state_->handle);
    if (status == CUDNN_STATUS_SUCCESS) {
        status = fe::detail::set_stream(state_->handle, static_cast<cudaStream_t>(gpu.stream));
    }
    if (status != CUDNN_STATUS_SUCCESS) {
        unusable(fmt::format("cuDNN {}: {}", text_of(state_->version), fe::detail::get_error_string(status)));
    }
}

Cudnn::~Cudnn() = default;

std::string Cudnn::version() const {
    return fmt::format("cuDNN {}, frontend {}.{}.{}", text_of(state_->version), CUDNN_FRONTEND_MAJOR_VERSION,
                       CUDNN_FRONTEND_MINOR_VERSION, CUDNN_FRONTEND_PATCH_VERSION);
}

const Cudnn::Plan& Cudnn::plan(const Sdpa& sdpa) {
    const auto known = state_->made.find(sdpa);
    if (known != state_->made.end()) return known->second.plan;
    if (state_->made.size() >= kMostPlans) {
        state_->too_many.refusal = fmt::format("there are plans for {} shapes already", kMostPlans);
        return state_->too_many;
    }
    Made& made = state_->made[sdpa];
    try {
        state_->make(sdpa, made);
    } catch (const std::exception& error) {  // a function that cuDNN lacks
        made.plan.refusal = error.what();
    }
    if (!made.plan.refusal.empty()) made.graph.reset();
    return made.plan;
}

Cudnn::Choice& Cudnn::choice(const Sdpa& sdpa) { return state_->made.at(sdpa).choice; }

void Cudnn::choose(const Sdpa& sdpa, const std::string& name) {
    Made& made = state_->made.at(sdpa);
    const auto index = made.find(name);
    if (index && made.fits(*index, sdpa.scratch())) made.take(*index);
}

std::string Cudnn::choose_fastest(const Sdpa& sdpa, const SdpaData& data, std::byte* scratch, const WorkTimer& timer) {
    Made& made = state_->made.at(sdpa);
    std::vector<std::int64_t> found;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(made.graph->get_execution_plan_count(), kMostTried); ++i) {
        if (made.fits(i, sdpa.scratch())) found.push_back(i);
    }
    const Addresses addresses = addresses_of(sdpa, data);
    std::vector<bool> failed(found.size());
    std::vector<float> times = timer(static_cast<int>(found.size()), [&](int i) {
        const auto at = static_cast<std::size_t>(i);
        if (made.execute(state_->handle, addresses, scratch, found[at])) failed[at] = true;
    });
    for (std::size_t i = 0; i < times.size(); ++i) {
        if (failed[i]) times[i] = std::numeric_limits<float>::infinity();
    }
    const auto fastest = std::min_element(times.begin(), times.end());
    if (fastest == times.end() || !std::isfinite(*fastest)) return "";
    made.take(found[static_cast<std::size_t>(fastest - times.begin())]);
    return made.plan.name;
}

void Cudnn::run(const Sdpa& sdpa, const SdpaData& data, std::byte* scratch) {
    const Made& made = state_->made.at(sdpa);
    const auto refusal = made.execute(state_->handle, addresses_of(sdpa, data), scratch, made.index);
    if (!refusal) return;
    throw DeviceError(fmt::format("{}: cuDNN: {}: q [{}, {}, {}, {}], {} keys, {} key heads",
                                  sdpa.gradient ? "attention_gradient" : "attention", *refusal, sdpa.batch,
                                  sdpa.queries, sdpa.heads, sdpa.width, sdpa.keys, sdpa.key_heads));
}

}  // namespace headroom::kernels
