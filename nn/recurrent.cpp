#include <headroom/nn/recurrent.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

namespace {

RecurrentWeights weights_of(const Path& path, const std::string& suffix, std::int64_t rows, std::int64_t in,
                            std::int64_t width, bool bias) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(width));
    const auto parameter = [&](const char* name, const Shape& shape) {
        return path.parameter(name + suffix, shape, init::uniform(-bound, bound));
    };
    RecurrentWeights weights{parameter("weight_ih", {rows, in}), parameter("weight_hh", {rows, width}), {}, {}};
    if (bias) {
        weights.bias_ih = parameter("bias_ih", {rows});
        weights.bias_hh = parameter("bias_hh", {rows});
    }
    return weights;
}

/// What an error calls the net: its path may be empty.
std::string name_of(const Path& path, std::int64_t gates) {
    return fmt::format("{}{}{}", gates == 4 ? "lstm" : "gru", path.path().empty() ? "" : " ", path.path());
}

void check_sizes(const Path& path, std::int64_t gates, std::int64_t in, std::int64_t width, std::int64_t layers) {
    if (in >= 1 && width >= 1 && layers >= 1) return;
    throw ShapeError(
        fmt::format("{}: in {}, width {} and layers {} must be at least 1", name_of(path, gates), in, width, layers));
}

}  // namespace

std::vector<RecurrentWeights> recurrent_weights(const Path& path, std::int64_t gates,
                                                const RecurrentNetOptions& options) {
    check_sizes(path, gates, options.in, options.width, options.layers);
    check_range(name_of(path, gates).c_str(), "dropout", options.dropout, 0, 1);
    const std::int64_t directions = options.bidirectional ? 2 : 1;
    std::vector<RecurrentWeights> all;
    for (std::int64_t layer = 0; layer < options.layers; ++layer) {
        const std::int64_t in = layer == 0 ? options.in : directions * options.width;
        for (std::int64_t direction = 0; direction < directions; ++direction) {
            const std::string suffix = fmt::format("_l{}{}", layer, direction == 1 ? "_reverse" : "");
            all.push_back(weights_of(path, suffix, gates * options.width, in, options.width, options.bias));
        }
    }
    return all;
}

RecurrentWeights recurrent_cell_weights(const Path& path, std::int64_t gates, std::int64_t in, std::int64_t width,
                                        bool bias) {
    check_sizes(path, gates, in, width, 1);
    return weights_of(path, "", gates * width, in, width, bias);
}

RecurrentOptions recurrent_options(const RecurrentNetOptions& options, bool training, Tensor lengths) {
    return {.bidirectional = options.bidirectional,
            .batch_first = options.batch_first,
            .dropout = training ? options.dropout : 0,
            .lengths = std::move(lengths),
            .checkpoint = options.checkpoint};
}

Tensor one_step(const char* op, const char* name, const Tensor& x) {
    if (!x.defined()) return {};
    check_form(op, {name, x}, x.rank() == 2, "[B, features]");
    return x.unsqueeze(0);
}

}  // namespace headroom::nn
