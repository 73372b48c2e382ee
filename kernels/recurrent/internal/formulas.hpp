#pragma once
// The cells' formulas and their derivatives, for the CPU and GPUs. Arguments are numbers instead of structs, so that
// loops around them vectorise.
//
//     const LstmGates<float> gates = lstm_gates(i, f, g, o);
//     const float c = lstm_cell(gates, before), h = gates.o * math::tanh(c);
#include <headroom/kernels/math.hpp>

namespace headroom::kernels {

template <class T>
struct LstmGates {
    T i, f, g, o;
};
/// The gates of their arguments.
template <class T>
constexpr LstmGates<T> lstm_gates(T i, T f, T g, T o) {
    return {math::sigmoid(i), math::sigmoid(f), math::tanh(g), math::sigmoid(o)};
}
template <class T>
constexpr T lstm_cell(const LstmGates<T>& gates, T before) {
    return gates.f * before + gates.i * gates.g;
}

template <class T>
struct LstmGradients {
    LstmGates<T> arguments;
    T before;  ///< with respect to the cell before
};
template <class T>
constexpr LstmGradients<T> lstm_gradients(T i, T f, T g, T o, T before, T c, T dh, T dc) {
    const T t = math::tanh(c), all = dc + dh * o * (T(1) - t * t);
    return {
        {all * g * i * (T(1) - i), all * before * f * (T(1) - f), all * i * (T(1) - g * g), dh * t * o * (T(1) - o)},
        all * f};
}

template <class T>
struct GruGates {
    T r, z, n;
};
/// The gates of x's and the state's parts of the arguments; the state's part of n is multiplied by r.
template <class T>
constexpr GruGates<T> gru_gates(T r, T z, T n, T hidden_r, T hidden_z, T hidden_n) {
    const T reset = math::sigmoid(r + hidden_r);
    return {reset, math::sigmoid(z + hidden_z), math::tanh(n + reset * hidden_n)};
}
template <class T>
constexpr T gru_state(const GruGates<T>& gates, T before) {
    return gates.n + gates.z * (before - gates.n);
}

template <class T>
struct GruGradients {
    GruGates<T> arguments;  ///< with respect to x's parts; the state's are the same except n's
    T hidden;               ///< with respect to the state's part of n's argument
    T before;               ///< with respect to the state before, without what comes through the gates
};
/// With respect to the gates r and z, and both parts of n's argument.
template <class T>
constexpr GruGradients<T> gru_gradients(T r, T z, T of_x, T hidden, T before, T dh) {
    const T n = math::tanh(of_x + r * hidden), dn = dh * (T(1) - z) * (T(1) - n * n);
    return {{dn * hidden * r * (T(1) - r), dh * (before - n) * z * (T(1) - z), dn}, dn * r, dh * z};
}

}  // namespace headroom::kernels
