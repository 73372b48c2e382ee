#include <headroom/kernels/device/internal/cudnn_graph.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <headroom/memory/error.hpp>
#include <headroom/memory/shared_library.hpp>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // set once, by open_once
}

namespace headroom::kernels {

namespace {

namespace fe = ::cudnn_frontend;
using fe::NumericalNote_t;
using fe::graph::Graph;

constexpr std::size_t kOldest = 91501;  // before it, the frontend pads by copies from the host
constexpr std::size_t kMostTried = 8;   // of the plans for one shape

[[noreturn]] void unusable(const std::string& why) { throw DeviceError(fmt::format("cuDNN: {}", why)); }

/// The frontend keeps functions in static variables, so that a process has one cuDNN.
std::size_t open_once(const std::vector<std::string>& libraries) {
    static const std::size_t version = [&] {
        const memory::SharedLibrary library(
            "cuDNN", libraries,
            fmt::format("install NVIDIA's cuDNN {} (Python package nvidia-cudnn-cu{}) and put its folder into "
                        "LD_LIBRARY_PATH, or name its file in HEADROOM_CUDNN",
                        CUDNN_MAJOR, CUDART_VERSION / 1000));
        decltype(&::cudnnGetVersion) get_version = nullptr;
        library.find(get_version, "cudnnGetVersion");
        const std::size_t found = get_version();
        if (found < kOldest || found / 10000 != CUDNN_MAJOR) {
            unusable(fmt::format("version {} is not supported; use {} or newer of major version {}",
                                 CudnnSession::text_of(found), CudnnSession::text_of(kOldest), CUDNN_MAJOR));
        }
        fe::cudnn_dlhandle = library.handle();
        return found;
    }();
    return version;
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

/// Its steps, until one refuses; the refusal, or nothing. Notes are those of plans: until there are plans, deselecting
/// them deselects nothing.
std::string build(Graph& graph, cudnnHandle_t handle, std::size_t scratch,
                  const std::vector<NumericalNote_t>& unwanted) {
    const std::function<fe::error_t()> steps[] = {
        [&] { return graph.validate(); },
        [&] { return handle ? graph.build_operation_graph(handle) : graph.build_operation_graph(); },
        [&] { return graph.create_execution_plans({fe::HeurMode_t::A}); },
        [&] {
            graph.deselect_numeric_notes(unwanted);
            graph.deselect_workspace_greater_than(static_cast<std::int64_t>(scratch));
            return graph.check_support();
        },
        [&] { return graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE); }};
    for (const auto& step : steps) {
        const fe::error_t error = step();
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

/// Executing a plan that cuDNN compiled asks a shared libcudart, which we are not linked to: better now than in the
/// middle of a training. The frontend opens it by its name alone, which finds what is loaded already.
void open_cudart(cudaStream_t stream, const std::vector<std::string>& runtimes) {
    std::string absence;
    try {
        const memory::SharedLibrary runtime(
            "CUDA's shared runtime", runtimes,
            fmt::format("install CUDA's runtime {} (Python package nvidia-cuda-runtime) and put its folder into "
                        "LD_LIBRARY_PATH, or name its file in CUDNN_FRONTEND_CUDART_LIB_NAME",
                        CUDART_VERSION / 1000));
    } catch (const DeviceError& error) {  // the frontend may find one of another version
        absence = error.what();
    }
    const auto refusal = refusal_of([&]() -> fe::error_t {
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        cudaGraph_t graph = nullptr;
        fe::detail::cuda_stream_get_capture_info(stream, &capture, &graph);
        return {};
    });
    if (refusal) {
        unusable(fmt::format("its frontend can't find a shared libcudart: {}", absence.empty() ? *refusal : absence));
    }
}

}  // namespace

std::vector<std::string> cudnn_libraries() {
    const std::string name = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
#ifdef HEADROOM_CUDNN_FOLDER
    return memory::library_files("HEADROOM_CUDNN", {name, HEADROOM_CUDNN_FOLDER + name});
#else
    return memory::library_files("HEADROOM_CUDNN", {name});
#endif
}

std::vector<std::string> cudart_libraries() {
    const std::string name = fmt::format("libcudart.so.{}", CUDART_VERSION / 1000);
#ifdef HEADROOM_CUDART_FOLDER
    return memory::library_files("CUDNN_FRONTEND_CUDART_LIB_NAME", {name, HEADROOM_CUDART_FOLDER + name});
#else
    return memory::library_files("CUDNN_FRONTEND_CUDART_LIB_NAME", {name});
#endif
}

std::shared_ptr<const CudnnSession> open_cudnn(const CudnnGpu& gpu, const std::vector<std::string>& libraries,
                                               const std::vector<std::string>& runtimes) {
    return std::make_shared<const CudnnSession>(gpu, libraries, runtimes);
}

CudnnSession::CudnnSession(const CudnnGpu& gpu, const std::vector<std::string>& libraries,
                           const std::vector<std::string>& runtimes)
    : version_(open_once(libraries)), capability_(gpu.capability), finish_work_(gpu.finish_work) {
    if (!gpu.description.empty()) {
        auto absent = std::make_shared<fe::DeviceProperties>();
        const fe::error_t error = absent->deserialize({gpu.description.begin(), gpu.description.end()});
        if (error.is_bad()) unusable(fmt::format("it does not support this GPU: {}", words_of(error)));
        absent_ = std::move(absent);
        return;
    }
    const auto stream = static_cast<cudaStream_t>(gpu.stream);
    open_cudart(stream, runtimes);
    cudnnStatus_t status = fe::detail::create_handle(&handle_);
    if (status == CUDNN_STATUS_SUCCESS) status = fe::detail::set_stream(handle_, stream);
    if (status != CUDNN_STATUS_SUCCESS) {
        unusable(fmt::format("{}: {}", text_of(version_), fe::detail::get_error_string(status)));
    }
}

CudnnSession::~CudnnSession() {
    if (handle_) fe::detail::destroy_handle(handle_);
}

std::string CudnnSession::text() const {
    return fmt::format("cuDNN {}, frontend {}.{}.{}", text_of(version_), CUDNN_FRONTEND_MAJOR_VERSION,
                       CUDNN_FRONTEND_MINOR_VERSION, CUDNN_FRONTEND_PATCH_VERSION);
}

std::string CudnnSession::text_of(std::size_t version) {
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void CudnnGraph::make(const CudnnSession& session, std::size_t scratch, const std::function<void(Graph&)>& describe,
                      const std::vector<NumericalNote_t>& unwanted) {
    graph_ = std::make_unique<Graph>();
    try {
        graph_->set_intermediate_data_type(fe::DataType_t::FLOAT)
            .set_compute_data_type(fe::DataType_t::FLOAT)
            .set_sm_version(session.capability());
        if (session.absent()) graph_->set_device_properties(session.absent());
        describe(*graph_);
        plan.refusal = build(*graph_, session.handle(), scratch, unwanted);
        if (plan.refusal.empty()) {
            std::string preferred;
            const auto index = graph_->get_plan_name(preferred).is_bad() ? std::nullopt : find(preferred);
            if (index) take(*index);
            if (!index) {
                plan.refusal = "cuDNN has no name for its plan";
            } else if (plan.scratch > scratch) {
                plan.refusal =
                    fmt::format("{} takes {} bytes of scratch, more than {}", plan.name, plan.scratch, scratch);
            }
        }
    } catch (const std::exception& error) {  // a function that cuDNN lacks
        plan.refusal = error.what();
    }
    if (!plan.refusal.empty()) graph_.reset();
}

void CudnnGraph::choose(const std::string& name, std::size_t scratch) {
    const auto index = find(name);
    if (index && fits(*index, scratch)) take(*index);
}

std::string CudnnGraph::choose_fastest(const CudnnSession& session, const CudnnAddresses& addresses, std::byte* memory,
                                       std::size_t scratch, const WorkTimer& timer,
                                       const std::function<bool()>& in_time) {
    std::vector<std::int64_t> found{index_};
    for (std::int64_t i = 0; i < graph_->get_execution_plan_count() && found.size() < kMostTried && in_time(); ++i) {
        if (i != index_ && fits(i, scratch)) found.push_back(i);
    }
    std::vector<bool> failed(found.size());
    std::vector<float> times = timer(static_cast<int>(found.size()), [&](int i) {
        const auto at = static_cast<std::size_t>(i);
        if (execute(session, addresses, memory, found[at])) failed[at] = true;
    });
    for (std::size_t i = 0; i < times.size(); ++i) {
        if (failed[i]) times[i] = std::numeric_limits<float>::infinity();
    }
    const auto fastest = std::min_element(times.begin(), times.end());
    if (fastest == times.end() || !std::isfinite(*fastest)) return "";
    take(found[static_cast<std::size_t>(fastest - times.begin())]);
    return plan.name;
}

std::optional<std::string> CudnnGraph::execute(const CudnnSession& session, CudnnAddresses addresses, std::byte* memory,
                                               std::int64_t i) const {
    return refusal_of([&] { return graph_->execute_plan_at_index(session.handle(), addresses, memory, i); });
}

std::size_t CudnnGraph::workspace(std::int64_t i) const {
    return static_cast<std::size_t>(graph_->get_workspace_size_plan_at_index(i));
}

/// True if it can be made and keeps to the scratch.
bool CudnnGraph::fits(std::int64_t i, std::size_t scratch) const {
    return !refusal_of([&] { return graph_->build_plan_at_index(i); }) && workspace(i) <= scratch;
}

std::string CudnnGraph::name(std::int64_t i) const {
    std::string text;
    return graph_->get_plan_name_at_index(i, text).is_bad() ? "" : text;
}

/// The index of that name, which plans have before they are built.
std::optional<std::int64_t> CudnnGraph::find(const std::string& wanted) const {
    for (std::int64_t i = 0; i < graph_->get_execution_plan_count(); ++i) {
        if (name(i) == wanted) return i;
    }
    return std::nullopt;
}

void CudnnGraph::take(std::int64_t i) {
    index_ = i;
    plan.name = name(i);
    plan.scratch = workspace(i);
}

}  // namespace headroom::kernels
