#pragma once
// Turns an op's struct into a function of tensors. Only an op's own source file calls `apply<Op>`; programs call the
// function that the file declares.
//
//     Tensor softmax(const Tensor& x) { return apply<ops::Softmax>({}, x); }
//     Tensor arange(Context& context, ...) { return apply<ops::Arange>(context, {...}); }
//     auto [mean, variance] = apply<ops::BatchMoments>({}, x);   // std::array<Tensor, 2>
#include <array>
#include <concepts>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/op.hpp>
#include <headroom/core/tape/record.hpp>
#include <headroom/core/tensor.hpp>

namespace headroom {

namespace detail {

/// Gives storage to parameters not used before, and turns autocast and mixed dtypes into recorded casts. Errors: Error,
/// naming both contexts, if an input does not belong to the tape's context.
void resolve_ambient(const OpInfo& info, Tape& tape, std::span<Tensor> inputs);

}  // namespace detail

/// The dtype in which an op should write its result for an f32 x under `Autocast`, so that the products that read it
/// need no cast; none outside `Autocast`. Store it in `Attrs`, because a replay runs outside the scope.
std::optional<Dtype> autocast_of(const Tensor& x);

/// Resolves the context's settings, then runs and records a type-erased op. `inputs` and errors: as `Tape::apply`.
inline void apply(Tape& tape, const OpTable& op, const void* attrs, std::span<Tensor> inputs,
                  std::span<Tensor> outputs) {
    detail::resolve_ambient(op.info, tape, inputs);
    tape.apply(op, attrs, inputs, outputs);
}

namespace detail {

template <class Function>
struct ForwardTraits;
/// Describes forward's parameters after (Exec&, const Attrs&), which are arrays or one span of arrays.
template <class Saved, class Out, class Attrs, class... Inputs>
struct ForwardTraits<OpResult<Saved, Out> (*)(Exec&, const Attrs&, Inputs...)> {
    static constexpr std::size_t n_inputs = sizeof...(Inputs);
    static constexpr bool takes_span = (std::is_same_v<Inputs, std::span<const Array>> || ...);
    using Output = Out;
};

template <class Out>
inline constexpr std::size_t n_outputs_of = std::tuple_size_v<Out>;
template <>
inline constexpr std::size_t n_outputs_of<Array> = 1;

/// Number of arrays in an op's `Saved`.
template <class Saved>
consteval std::size_t saved_count() {
    if constexpr (std::is_empty_v<Saved>) {
        return 0;
    } else {
        static_assert(std::is_standard_layout_v<Saved> && sizeof(Saved) % sizeof(Array) == 0,
                      "Saved holds arrays, nothing else");
        return sizeof(Saved) / sizeof(Array);
    }
}

/// The arrays of `saved`, in field order.
template <class Saved>
std::span<Array> arrays_of(Saved& saved) {
    return {reinterpret_cast<Array*>(&saved), saved_count<Saved>()};
}

[[noreturn]] void throw_input_count(const char* op, std::size_t expected, std::size_t got);

template <Operator Op>
void forward_erased(Exec& exec, const void* attrs, std::span<const Array> inputs, Array* outputs, Array* saved) {
    using Traits = ForwardTraits<decltype(&Op::forward)>;
    const auto& typed = *static_cast<const typename Op::Attrs*>(attrs);
    auto result = [&] {
        if constexpr (Traits::takes_span) {
            return Op::forward(exec, typed, inputs);
        } else {
            if (inputs.size() != Traits::n_inputs) throw_input_count(Op::info.name, Traits::n_inputs, inputs.size());
            return [&]<std::size_t... I>(std::index_sequence<I...>) { return Op::forward(exec, typed, inputs[I]...); }
            (std::make_index_sequence<Traits::n_inputs>());
        }
    }();
    if constexpr (std::same_as<typename Traits::Output, Array>) {
        new (outputs) Array(std::move(result.out));
    } else {
        for (Array& out : result.out) new (outputs++) Array(std::move(out));
    }
    for (Array& array : arrays_of(result.saved)) new (saved++) Array(std::move(array));
}

template <Differentiable Op>
void backward_erased(Exec& exec, const void* attrs, Array* saved, Array* dy, GradSink sink) {
    using Out = typename ForwardTraits<decltype(&Op::forward)>::Output;
    typename Op::Saved typed;
    for (Array& array : arrays_of(typed)) array = std::move(*saved++);
    const auto& attributes = *static_cast<const typename Op::Attrs*>(attrs);
    if constexpr (std::same_as<Out, Array>) {
        Op::backward(exec, attributes, typed, std::move(*dy), sink);
    } else {
        Out gradients;
        for (Array& gradient : gradients) gradient = std::move(*dy++);
        Op::backward(exec, attributes, typed, std::move(gradients), sink);
    }
}

template <Operator Op>
consteval auto backward_pointer() -> void (*)(Exec&, const void*, Array*, Array*, GradSink) {
    if constexpr (Differentiable<Op>) {
        return &backward_erased<Op>;
    } else {
        return nullptr;
    }
}

template <Operator Op>
consteval auto operations_pointer() -> Operations (*)(const void*, std::span<const Shape>, std::span<const Shape>) {
    if constexpr (Counted<Op>) {
        return [](const void* attrs, std::span<const Shape> inputs, std::span<const Shape> made) {
            return Op::operations(*static_cast<const typename Op::Attrs*>(attrs), inputs, made);
        };
    } else {
        return nullptr;
    }
}

template <Operator Op>
inline constexpr OpTable table_of = {
    Op::info,
    n_outputs_of<typename ForwardTraits<decltype(&Op::forward)>::Output>,
    saved_count<typename Op::Saved>(),
    sizeof(typename Op::Attrs),
    &forward_erased<Op>,
    backward_pointer<Op>(),
    operations_pointer<Op>(),
};

template <Operator Op>
auto apply_to(Tape& tape, const typename Op::Attrs& attrs, std::span<Tensor> inputs) {
    constexpr std::size_t n_outputs = table_of<Op>.n_outputs;
    if constexpr (n_outputs == 1) {
        Tensor output;
        apply(tape, table_of<Op>, &attrs, inputs, {&output, 1});
        return output;
    } else {
        std::array<Tensor, n_outputs> outputs;
        apply(tape, table_of<Op>, &attrs, inputs, outputs);
        return outputs;
    }
}

/// The tape of the first defined input. Errors: Error if no input is defined.
Tape& tape_of(const char* op, std::span<const Tensor> inputs);

}  // namespace detail

/// Runs `Op` on tensors of one context. It may take over the storage of tensors that the caller moves in.
template <Operator Op, class... Inputs>
requires(std::same_as<std::remove_cvref_t<Inputs>, Tensor>&&...) auto apply(const typename Op::Attrs& attrs,
                                                                            Inputs&&... inputs) {
    std::array<Tensor, sizeof...(Inputs)> all{std::forward<Inputs>(inputs)...};
    return detail::apply_to<Op>(detail::tape_of(Op::info.name, all), attrs, all);
}

/// For ops that take a span of inputs.
template <Operator Op>
auto apply(const typename Op::Attrs& attrs, std::vector<Tensor> inputs) {
    return detail::apply_to<Op>(detail::tape_of(Op::info.name, inputs), attrs, inputs);
}

/// For ops without inputs.
template <Operator Op>
auto apply(Context& context, const typename Op::Attrs& attrs) {
    return detail::apply_to<Op>(context.tape(), attrs, {});
}

/// A type-erased sample call of an op.
struct ErasedSample {
    std::string label;
    std::vector<std::byte> attrs;
    std::vector<SampleInput> inputs;
    std::string rejected;
};

/// A type-erased op, for code that iterates over all ops.
struct OpEntry {
    const OpTable* table;
    std::vector<ErasedSample> (*samples)();
};

template <Operator Op>
OpEntry op_entry() {
    return {
        &detail::table_of<Op>, [] {
            std::vector<ErasedSample> all;
            for (const auto& sample : Op::samples()) {
                const auto* bytes = reinterpret_cast<const std::byte*>(&sample.attrs);
                all.push_back({sample.label, {bytes, bytes + sizeof(sample.attrs)}, sample.inputs, sample.rejected});
            }
            return all;
        }};
}

/// Adds `Op<F>` for every function F of the list.
template <template <class> class Op, class... F>
void add_entries(std::vector<OpEntry>& all, kernels::FunctionList<F...>) {
    (all.push_back(op_entry<Op<F>>()), ...);
}

}  // namespace headroom
