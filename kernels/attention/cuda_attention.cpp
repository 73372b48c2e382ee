// Attention on a GPU by cuDNN, where it can be asked.
#include <headroom/kernels/attention/internal/cuda_cudnn.hpp>
#include <headroom/kernels/attention/internal/paths.hpp>
#include <headroom/kernels/attention/internal/sdpa.hpp>
#include <headroom/kernels/attention/internal/sdpa_choices.hpp>
#include <headroom/kernels/device/internal/cudnn_calls.hpp>

namespace headroom::kernels {

namespace {

CudnnCalls<Cudnn>& calls_of(CudaStream& stream) { return stream.state->get<CudnnCalls<Cudnn>>(); }

/// Whether cuDNN has a plan for each part; only then is it given any.
bool takes(CudaStream& stream, const Sdpa& whole) {
    bool all = true;
    for_each_part(whole, [&](const Sdpa& part, std::int64_t, std::int64_t) {
        all = all && calls_of(stream).takes(stream, part);
    });
    return all;
}

bool wanted(const CudaStream& stream) { return !stream.compute.own_kernels; }

}  // namespace

bool attention_by_library(CudaStream& stream, const Sdpa& whole, const Attention& a, std::byte* scratch) {
    if (!wanted(stream) || !ready(a) || !takes(stream, whole)) return false;
    calls_of(stream).run(stream, whole, data_of(a), scratch);
    return true;
}

bool attention_gradient_by_library(CudaStream& stream, const Sdpa& whole, const AttentionGradient& g,
                                   std::byte* scratch) {
    if (!wanted(stream) || !ready(g) || !takes(stream, whole)) return false;
    for_each_part(whole, [&](const Sdpa& part, std::int64_t batch, std::int64_t key_head) {
        calls_of(stream).run(stream, part, data_of(g, batch, key_head), scratch);
    });
    return true;
}

void attention_not_asked(CudaStream& stream) {
    const std::string refusal = refusal_of_old_gpu(stream);
    calls_of(stream).refusal =
        refusal.empty() ? "cuDNN is not used for attention with masks, lengths or dropout" : refusal;
}

std::string attention_library(CudaStream& stream) { return calls_of(stream).text(stream); }

}  // namespace headroom::kernels
