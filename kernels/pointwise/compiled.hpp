#pragma once
// Compiles the functions of a list for one kind of stream. Only the sources that define the templates of
// `pointwise.hpp` include it. A program instead includes those definitions where it uses a function of its own.
//
//     #include <headroom/kernels/pointwise/pointwise_loops.hpp>
//     template struct Compiled<CpuStream, UnaryFunctions>;
//
// Such an instantiation defines the class's static member, which holds the functions' addresses. So the functions must
// exist, and other sources can call them.
#include <tuple>

#include <headroom/kernels/pointwise/pointwise.hpp>

namespace headroom::kernels {

/// The addresses of a function's kernels: of its value and of its derivatives, if any.
template <class Stream, UnaryFunction F>
constexpr auto addresses_of() {
    constexpr void (*value)(Stream&, const F&, const View&, const View&) = &map;
    if constexpr (DifferentiableUnary<F>) {
        constexpr void (*gradient)(Stream&, const F&, const View&, const View&, float, const View&) = &map_backward;
        return std::tuple{value, gradient};
    } else {
        return std::tuple{value};
    }
}

template <class Stream, BinaryFunction F>
constexpr auto addresses_of() {
    constexpr void (*value)(Stream&, const F&, const View&, const View&, const View&) = &map;
    if constexpr (DifferentiableBinary<F>) {
        using Gradient = void (*)(Stream&, const F&, const View&, const View&, const View&, float, const View&);
        return std::tuple{value, Gradient{&map_backward_a}, Gradient{&map_backward_b}};
    } else {
        return std::tuple{value};
    }
}

template <class Stream, class List>
struct Compiled;

template <class Stream, class... F>
struct Compiled<Stream, FunctionList<F...>> {
    static constexpr std::tuple addresses{addresses_of<Stream, F>()...};
};

}  // namespace headroom::kernels
