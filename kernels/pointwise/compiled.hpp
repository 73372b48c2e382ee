#pragma once
// Compiles the functions of a list for a kind of stream. For the sources where the templates of `pointwise.hpp` have
// their definitions; not for programs, which include those definitions where they use a function of their own.
//
//     #include <headroom/kernels/pointwise/pointwise_loops.hpp>
//     template struct Compiled<CpuStream, UnaryFunctions>;
//
// Such an instantiation defines the class's static member. Functions whose addresses stand in that must exist, so other
// sources can call them.
#include <tuple>

#include <headroom/kernels/pointwise/pointwise.hpp>

namespace headroom::kernels {

/// The addresses of a function's kernels: of its value and, where it has derivatives, of those.
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
