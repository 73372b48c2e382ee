// Attention on a GPU by cuDNN, where it can be asked.
#include <functional>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <headroom/kernels/attention/internal/cuda_cudnn.hpp>
#include <headroom/kernels/attention/internal/paths.hpp>
#include <headroom/kernels/attention/internal/sdpa_choices.hpp>
#include <headroom/kernels/attention/sdpa.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/internal/one_line.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

/// A stream's.
struct CudnnState {
    std::unique_ptr<Cudnn> cudnn;
    std::string absence;  ///< why there is none
    std::string refusal;  ///< the last one, of those that were asked of it
};

/// Opens cuDNN when first asked; null if there is none.
Cudnn* cudnn_of(CudaStream& stream) {
    CudnnState& state = stream.state->get<CudnnState>();
    if (state.cudnn || !state.absence.empty()) return state.cudnn.get();
    const CudaProperties& gpu = stream.device->properties();
    try {
        state.cudnn = std::make_unique<Cudnn>(
            Cudnn::Gpu{.capability = 10 * gpu.major + gpu.minor, .stream = stream.device->native(), .description = {}});
    } catch (const DeviceError& error) {
        state.absence = error.what();
    }
    return state.cudnn.get();
}

/// Whether cuDNN has a plan for each part; only then is it given any.
bool takes(CudaStream& stream, const Sdpa& whole) {
    stream.device->make_current();
    Cudnn* const cudnn = cudnn_of(stream);
    bool all = cudnn != nullptr;
    for_each_part(whole, [&](const Sdpa& part, std::int64_t, std::int64_t) {
        if (!all) return;
        const std::string& refusal = cudnn->plan(part).refusal;
        if (refusal.empty()) return;
        stream.state->get<CudnnState>().refusal = refusal;
        all = false;
    });
    return all;
}

/// The plan that an earlier run found fastest or, where that is asked for, this one finds.
void choose(CudaStream& stream, Cudnn& cudnn, const Sdpa& x, const SdpaData& data, std::byte* scratch) {
    Cudnn::Choice& choice = cudnn.choice(x);
    const bool tune = stream.compute.tune;
    if (choice.tuned || (choice.known && !tune)) return;
    const std::string place = fmt::format("{}, {}", stream.device->properties().name, cudnn.version());
    SdpaChoices& choices = stream.state->get<SdpaChoices>();
    const std::string* const earlier = choices.find(x, place);
    choice = {.known = true, .tuned = tune || earlier};  // whatever comes of it, it is tried once
    if (earlier) return cudnn.choose(x, *earlier);
    if (!tune) return;
    const auto timer = std::bind_front(time_each, std::ref(*stream.device));
    const std::string fastest = cudnn.choose_fastest(x, data, scratch, timer);
    if (!fastest.empty()) choices.set(x, place, fastest);
}

void run(CudaStream& stream, const Sdpa& x, const SdpaData& data, std::byte* scratch) {
    Cudnn& cudnn = *cudnn_of(stream);
    choose(stream, cudnn, x, data, scratch);
    cudnn.run(x, data, scratch);
}

bool wanted(const CudaStream& stream) { return !stream.compute.own_kernels; }

}  // namespace

bool attention_by_library(CudaStream& stream, const Sdpa& whole, const Attention& a, std::byte* scratch) {
    if (!wanted(stream) || !ready(a) || !takes(stream, whole)) return false;
    run(stream, whole, data_of(a), scratch);
    return true;
}

bool attention_gradient_by_library(CudaStream& stream, const Sdpa& whole, const AttentionGradient& g,
                                   std::byte* scratch) {
    if (!wanted(stream) || !ready(g) || !takes(stream, whole)) return false;
    for_each_part(whole, [&](const Sdpa& part, std::int64_t batch, std::int64_t key_head) {
        run(stream, part, data_of(g, batch, key_head), scratch);
    });
    return true;
}

void attention_not_asked(CudaStream& stream) {
    stream.state->get<CudnnState>().refusal = "it is not asked for masks, lengths and dropout of attention";
}

std::string attention_library(CudaStream& stream) {
    if (!wanted(stream)) return "own kernels, as ComputeOptions say";
    stream.device->make_current();
    Cudnn* const cudnn = cudnn_of(stream);
    const CudnnState& state = stream.state->get<CudnnState>();
    if (!cudnn) return one_line(fmt::format("own kernels: {}", state.absence));
    if (state.refusal.empty()) return cudnn->version();
    return one_line(fmt::format("{}; own kernels at least once: {}", cudnn->version(), state.refusal));
}

}  // namespace headroom::kernels
