#include <headroom/nn/gru.hpp>

namespace headroom::nn {

namespace {

constexpr std::int64_t kGruGates = 3;

}  // namespace

Gru::Gru(const Path& path, const RecurrentNetOptions& options_)
    : Module(path), options(options_), weights(recurrent_weights(path, kGruGates, options_)) {}

GruOutput Gru::forward(Tensor x, Tensor state, Tensor lengths) const {
    return gru(std::move(x), weights, std::move(state), recurrent_options(options, training(), std::move(lengths)));
}

GruCell::GruCell(const Path& path, std::int64_t in, std::int64_t width, bool bias)
    : Module(path), weights(recurrent_cell_weights(path, kGruGates, in, width, bias)) {}

Tensor GruCell::forward(Tensor x, Tensor h) const {
    return gru(one_step("gru_cell", "x", x), {weights}, one_step("gru_cell", "h", h)).h.squeeze(0);
}

}  // namespace headroom::nn
