#include <headroom/core/ops/lstm.hpp>

#include <headroom/core/ops/internal/recurrent_stack.hpp>

namespace headroom {

namespace ops {

OpResult<Lstm::Saved, Lstm::Out> Lstm::forward(Exec& exec, const Attrs& attrs, std::span<const Array> inputs) {
    RecurrentResult result = recurrent_forward(exec, recurrent::Cell::lstm, attrs, inputs);
    return {std::move(result.saved), {std::move(result.y), std::move(result.h_n), std::move(result.c_n)}};
}

void Lstm::backward(Exec& exec, const Attrs& attrs, Saved& saved, Out dy, GradSink sink) {
    recurrent_backward(exec, recurrent::Cell::lstm, attrs, saved, dy, sink);
}

Operations Lstm::operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape>) {
    return recurrent_operations(attrs, inputs);
}

std::vector<Sample<Lstm::Attrs>> Lstm::samples() { return recurrent_samples(recurrent::Cell::lstm); }

}  // namespace ops

LstmOutput lstm(Tensor x, const std::vector<RecurrentWeights>& weights, LstmState state,
                const RecurrentOptions& options) {
    RecurrentStack all = recurrent_stack("lstm", std::move(x), weights, {std::move(state.h), std::move(state.c)},
                                         options, [](const ops::RecurrentAttrs& attrs, std::vector<Tensor> inputs) {
                                             auto [y, h, c] = apply<ops::Lstm>(attrs, std::move(inputs));
                                             return RecurrentStack{std::move(y), std::move(h), std::move(c)};
                                         });
    return {std::move(all.output), {std::move(all.h), std::move(all.c)}};
}

}  // namespace headroom
