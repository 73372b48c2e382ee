#include <headroom/nn/lstm.hpp>

namespace headroom::nn {

namespace {

constexpr std::int64_t kLstmGates = 4;

}  // namespace

Lstm::Lstm(const Path& path, const RecurrentNetOptions& options_)
    : Module(path), options(options_), weights(recurrent_weights(path, kLstmGates, options_)) {}

LstmOutput Lstm::forward(Tensor x, LstmState state, Tensor lengths) const {
    return lstm(std::move(x), weights, std::move(state), recurrent_options(options, training(), std::move(lengths)));
}

LstmCell::LstmCell(const Path& path, std::int64_t in, std::int64_t width, bool bias)
    : Module(path), weights(recurrent_cell_weights(path, kLstmGates, in, width, bias)) {}

LstmState LstmCell::forward(Tensor x, LstmState state) const {
    const LstmOutput all = lstm(one_step("lstm_cell", "x", x), {weights},
                                {one_step("lstm_cell", "h", state.h), one_step("lstm_cell", "c", state.c)});
    return {all.state.h.squeeze(0), all.state.c.squeeze(0)};
}

}  // namespace headroom::nn
