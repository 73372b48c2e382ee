#pragma once
// Ops for tests of the tape, made as a user would: each has one property that the tape must handle.
//
//     Tensor y = toy::mul(a, b);               // saves both inputs
//     toy::Faults faults{.forward = 3};        // the fourth forward from now on throws
#include <array>
#include <cstdint>
#include <vector>

#include <headroom/core/tensor.hpp>

namespace headroom::toy {

/// Which of the following calls of `fragile` throws, counted from 0; -1 none. Counted down by the calls.
struct Faults {
    std::int64_t forward = -1;
    std::int64_t backward = -1;
};

/// a + b of one shape. Saves nothing; may write over a.
Tensor add(Tensor a, Tensor b);
/// a * b of one shape. Saves its inputs.
Tensor mul(Tensor a, Tensor b);
/// tanh(x). Saves its output; may write over x.
Tensor tanh(Tensor x);
/// x * n(key), n standard normal. Saves a private array, and draws from the context's random state.
Tensor noisy(Tensor x);
/// sin(x). Saves a private array, cos(x), where backward will want it; leaves its output out where a replay wants but
/// that. Counts the outputs that it computes.
Tensor sine(Tensor x, std::int64_t& outputs);
/// {x + 1, 2 x}. Two outputs.
std::array<Tensor, 2> fork(Tensor x);
/// The sum of all elements, a scalar.
Tensor total(Tensor x);
/// The sum of x^2 over eight tensors of one shape. Saves them all, and writes their gradients in one launch.
Tensor squares(std::vector<Tensor> eight);
/// 0, 1, 2, ...: no inputs.
Tensor count(Context& context, const Shape& shape);
/// x, of which autocast makes half precision before, as f32. Saves its input.
Tensor coarse(Tensor x);
/// x * 1, throwing when `faults` says so. Saves its input. Each call runs forward, its replays too.
Tensor fragile(Tensor x, Faults& faults);

}  // namespace headroom::toy
