#include <headroom/kernels/attention/internal/sdpa_choices.hpp>

#include <fmt/format.h>

namespace headroom::kernels {

std::string Sdpa::text() const {
    std::string text = fmt::format("{} {} {} {} {} {:a} {} {} {} {} {} {}", gradient, causal, deterministic, stats,
                                   name(dtype), scale, batch, queries, keys, heads, key_heads, width);
    for (const Strides& strides : {q, k, v, o, dy, dq, dk, dv}) {
        text += fmt::format(" {}:{}:{}", strides[0], strides[1], strides[2]);
    }
    return text;
}

}  // namespace headroom::kernels
