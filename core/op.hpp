#pragma once
// An op is one struct: its mathematics, the arrays it saves, its gradient and its sample inputs. A user's own op works
// like a built-in one. Ops are pure: they see only arrays and an `Exec`. Autocast and random keys are resolved before
// the call; `Attrs` carries them.
//
//     struct Square {
//         static constexpr OpInfo info{.name = "square", .cost = Cost::cheap};
//         struct Attrs {};
//         struct Saved { Array x; };
//         static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& x);
//         static void backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink);
//         static std::vector<Sample<Attrs>> samples();
//     };
//     Tensor square(const Tensor& x) { return apply<Square>({}, x); }
//
// `forward` checks shapes and dtypes before it allocates (core/ops/checks.hpp); its errors name the op. Inputs may also
// arrive as `std::span<const Array>` (cat). An optional input that was left out is an undefined array. Outputs are an
// `Array` or `std::array<Array, N>`, new or from `Exec::output`. Their axes may be in any order in memory, without
// gaps; dy arrives with the same geometry. `Saved` is an aggregate of arrays: inputs, outputs, or the op's own.
// `backward` may take it as `Saved&`, to offer the sink storage that it no longer needs. Ops without a gradient omit
// `backward`. Ops that are not bound by memory traffic define `operations`, their count of floating-point operations.
// `forward` must be deterministic, because a replay runs it again. If an output costs more than the saved arrays,
// `forward` may check `Exec::output_wanted`: a replay may need only the saved arrays.
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <headroom/core/array.hpp>
#include <headroom/core/exec.hpp>
#include <headroom/core/grad_sink.hpp>
#include <headroom/kernels/pointwise/functions.hpp>

namespace headroom {

/// The cost of recomputing an op relative to the memory that it frees; policies use it.
enum class Cost : std::uint8_t {
    cheap,      ///< pointwise or a reduction: bound by memory traffic
    expensive,  ///< a matrix product, attention
};

/// How autocast treats an op's floating inputs.
enum class Precision : std::uint8_t {
    follow,  ///< inputs of different floating dtypes are cast to the widest
    half,    ///< f32 inputs are cast to the autocast dtype
    full,    ///< no casts: the kernel takes any dtype and computes in f32 (f64 for f64)
};

struct OpInfo {
    const char* name;
    Cost cost = Cost::cheap;
    Precision precision = Precision::follow;
    std::uint8_t in_place = 0;     ///< bit i: the output may reuse the storage of input i (see Exec::output)
    bool passes_gradient = false;  ///< dx is dy in another dtype, so consumers may write dx directly (cast)
    /// The number of outputs with a gradient, counted from the first. `backward` gets undefined arrays for the others.
    std::uint8_t differentiable_outputs = 255;
    std::uint8_t as_is = 0;  ///< bit i: input i is never cast, whatever `precision` is
    /// True if a sample's result depends on the other samples, so that smaller micro-batches train differently:
    /// statistics of a batch, losses over pairs.
    bool couples_samples = false;
};

/// The result of forward: the arrays that backward needs, and the output or outputs.
template <class Saved, class Out>
struct OpResult {
    Saved saved;
    Out out;
};

/// Floating-point operations (multiplications and additions) of an op's passes.
struct Operations {
    double forward = 0;
    double backward = 0;

    /// Operations of matrix products: the two gradients take as many each as forward.
    static Operations of_product(double forward) { return {forward, 2 * forward}; }
};

/// The number of elements as a double, for products that would overflow an integer.
inline double elements_of(const Shape& shape) { return static_cast<double>(shape.numel()); }

/// Values of an input in generic tests.
struct SampleInput {
    enum class Fill : std::uint8_t { normal, positive, unit, distinct, halves, index, boolean };
    Fill fill = Fill::normal;
    Shape shape;
    std::int64_t bound = 0;  ///< for `index`: values in [0, bound)
    bool defined = true;     ///< false: an optional input left out
    bool constant = false;   ///< floating, but without a gradient

    static SampleInput normal(Shape shape) { return {Fill::normal, shape}; }
    /// In [0.5, 2): for logarithms, roots, quotients.
    static SampleInput positive(Shape shape) { return {Fill::positive, shape}; }
    /// In (0.05, 0.95).
    static SampleInput unit(Shape shape) { return {Fill::unit, shape}; }
    /// No two elements closer than a finite-difference step, none near zero: for maxima and kinks.
    static SampleInput distinct(Shape shape) { return {Fill::distinct, shape}; }
    /// ±1/2, ±3/2 or ±5/2. A sum of an odd number of pairwise products, plus any such value, is at least 1/4 in
    /// magnitude. For kinks behind products.
    static SampleInput halves(Shape shape) { return {Fill::halves, shape}; }
    static SampleInput index(Shape shape, std::int64_t bound) { return {Fill::index, shape, bound}; }
    static SampleInput boolean(Shape shape) { return {Fill::boolean, shape}; }
    /// Values in the domain of a pointwise function.
    static SampleInput in(const kernels::Domain& domain, Shape shape) {
        return domain.kinked ? distinct(shape) : domain.low > -4 ? positive(shape) : normal(shape);
    }
    /// The same input without a gradient, for ops that have none for it.
    SampleInput without_gradient() const {
        SampleInput result = *this;
        result.constant = true;
        return result;
    }
    static SampleInput none() { return {Fill::normal, {}, 0, false}; }
};

/// One call for the generic tests: attributes, inputs and, if the op must reject the call, a part of the error message.
template <class Attrs>
struct Sample {
    std::string label;
    Attrs attrs{};
    std::vector<SampleInput> inputs;
    const char* rejected = "";
};

struct NoAttrs {};

/// The same calls with `attrs`. Related ops thus share samples that are compiled once.
template <class Attrs>
std::vector<Sample<Attrs>> with_attrs(const Attrs& attrs, const std::vector<Sample<NoAttrs>>& calls) {
    std::vector<Sample<Attrs>> result;
    for (const Sample<NoAttrs>& call : calls) result.push_back({call.label, attrs, call.inputs, call.rejected});
    return result;
}

template <class Op>
concept Operator = requires {
    { Op::info } -> std::convertible_to<OpInfo>;
    typename Op::Attrs;
    typename Op::Saved;
    &Op::forward;
    { Op::samples() } -> std::same_as<std::vector<Sample<typename Op::Attrs>>>;
}
&&std::is_trivially_copyable_v<typename Op::Attrs> &&
    alignof(typename Op::Attrs) <= alignof(std::max_align_t) && std::is_aggregate_v<typename Op::Saved>;

/// True for ops that define `operations`: those that are not bound by memory traffic.
template <class Op>
concept Counted = Operator<Op> && requires(const typename Op::Attrs& attrs, std::span<const Shape> inputs) {
    { Op::operations(attrs, inputs, inputs) } -> std::same_as<Operations>;
};

/// True for ops with a gradient.
template <class Op>
concept Differentiable = Operator<Op> && requires {
    &Op::backward;
};

}  // namespace headroom
