#include <headroom/core/ops/recurrent.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/dropout.hpp>
#include <headroom/core/ops/internal/recurrent_stack.hpp>
#include <headroom/core/ops/unary.hpp>

namespace headroom {

namespace {

struct Stack {
    const char* op;
    const RecurrentOptions& options;
    std::int64_t directions, layers;
    Tensor last;

    Stack(const char* op_, std::size_t weights, const RecurrentOptions& options_)
        : op(op_), options(options_), directions(options_.bidirectional ? 2 : 1) {
        const auto count = static_cast<std::int64_t>(weights);
        if (count == 0 || count % directions != 0) {
            throw Error(fmt::format("{}: got {} weights; give one for each layer{}", op, count,
                                    directions == 2 ? " and direction" : ""));
        }
        layers = count / directions;
        check_range(op, "dropout", options.dropout, 0, 1);
        if (!options.lengths.defined()) return;
        check_index(op, Argument("lengths", options.lengths));
        last = options.lengths - 1;
    }

    void check_states(const char* name, const Tensor& states) const {
        if (!states.defined() || (states.rank() == 3 && states.size(0) == layers * directions)) return;
        throw ShapeError(fmt::format("{}: {} {} must be [{}, B, H], one for each layer and direction", op, name,
                                     states.shape().to_string(), layers * directions));
    }

    Tensor of_layer(const Tensor& states, std::int64_t layer) const {
        if (!states.defined() || layers == 1) return states;
        return states.slice(0, layer * directions, (layer + 1) * directions);
    }
};

Tensor joined(std::vector<Tensor> states) {
    if (states.size() == 1 || !states[0].defined()) return std::move(states[0]);
    return cat(std::move(states), 0);
}

/// [B, T, ...] from [T, B, ...], or the other way.
Tensor exchanged(const char* op, const Tensor& x) {
    check_form(op, {"x", x}, x.rank() == 3, "[B, T, I]");
    return x.transpose(0, 1);
}

}  // namespace

RecurrentStack recurrent_stack(const char* op, Tensor x, const std::vector<RecurrentWeights>& weights,
                               RecurrentStates states, const RecurrentOptions& options, RecurrentLayer layer) {
    return as_op(op, [&] {
        check_floating(op, {Argument("x", x)});
        const Stack stack(op, weights.size(), options);
        stack.check_states("h0", states.h);
        stack.check_states("c0", states.c);
        if (options.batch_first) x = exchanged(op, x).contiguous();
        std::vector<Tensor> h, c;
        for (std::int64_t l = 0; l < stack.layers; ++l) {
            if (l > 0) x = dropout(std::move(x), options.dropout);
            std::vector<Tensor> inputs{std::move(x), stack.of_layer(states.h, l), stack.of_layer(states.c, l),
                                       stack.last};
            for (std::int64_t d = 0; d < stack.directions; ++d) {
                const RecurrentWeights& own = weights[static_cast<std::size_t>(l * stack.directions + d)];
                inputs.insert(inputs.end(), {own.weight_ih, own.weight_hh, own.bias_ih, own.bias_hh});
            }
            RecurrentStack result = layer({options.checkpoint}, std::move(inputs));
            x = std::move(result.output);
            h.push_back(std::move(result.h));
            c.push_back(std::move(result.c));
        }
        if (options.batch_first) x = exchanged(op, x);
        return RecurrentStack{std::move(x), joined(std::move(h)), joined(std::move(c))};
    });
}

}  // namespace headroom
