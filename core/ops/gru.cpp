#include <headroom/core/ops/gru.hpp>

#include <headroom/core/ops/internal/recurrent_stack.hpp>

namespace headroom {

namespace ops {

OpResult<Gru::Saved, Gru::Out> Gru::forward(Exec& exec, const Attrs& attrs, std::span<const Array> inputs) {
    RecurrentResult result = recurrent_forward(exec, recurrent::Cell::gru, attrs, inputs);
    return {std::move(result.saved), {std::move(result.y), std::move(result.h_n)}};
}

void Gru::backward(Exec& exec, const Attrs& attrs, Saved& saved, Out dy, GradSink sink) {
    recurrent_backward(exec, recurrent::Cell::gru, attrs, saved, dy, sink);
}

Operations Gru::operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape>) {
    Operations operations = recurrent_operations(attrs, inputs);
    operations.backward += operations.forward / 3;  // candidates, one gate of three, are computed again
    return operations;
}

std::vector<Sample<Gru::Attrs>> Gru::samples() { return recurrent_samples(recurrent::Cell::gru); }

}  // namespace ops

GruOutput gru(Tensor x, const std::vector<RecurrentWeights>& weights, Tensor h0, const RecurrentOptions& options) {
    RecurrentStack all = recurrent_stack("gru", std::move(x), weights, {std::move(h0), {}}, options,
                                         [](const ops::RecurrentAttrs& attrs, std::vector<Tensor> inputs) {
                                             auto [y, h] = apply<ops::Gru>(attrs, std::move(inputs));
                                             return RecurrentStack{std::move(y), std::move(h), {}};
                                         });
    return {std::move(all.output), std::move(all.h)};
}

}  // namespace headroom
