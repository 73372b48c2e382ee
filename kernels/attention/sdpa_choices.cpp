#include <headroom/kernels/attention/internal/sdpa_choices.hpp>

#include <fmt/format.h>

#include <headroom/kernels/attention/attention.hpp>

namespace headroom::kernels {

std::string Sdpa::text() const {
    std::string text = fmt::format("{} {} {} {} {} {:a} {} {} {} {} {} {}", gradient, causal, deterministic, stats,
                                   name(dtype), scale, batch, queries, keys, heads, key_heads, width);
    for (const Strides& strides : {q, k, v, o, dy, dq, dk, dv}) {
        text += fmt::format(" {}:{}:{}", strides[0], strides[1], strides[2]);
    }
    return text;
}

void append_attention_choices(CudaStream& stream, const std::string& path) {
    stream.state->get<SdpaChoices>().append(path);
}

void load_attention_choices(CudaStream& stream, const std::string& path) {
    stream.state->get<SdpaChoices>().load(path);
}

}  // namespace headroom::kernels
