#pragma once
// An op of the consumer's own, written as docs of the op concept say: x / (1 + |x|), Turian et al. 2009. The tape
// records, replays and rehearses it like a built-in one.
//
//     Tensor y = softsign(x);
#include <headroom/core/tensor.hpp>

/// x / (1 + |x|), element by element. f32 or f64. Errors: DtypeError.
headroom::Tensor softsign(headroom::Tensor x);

/// Tests the op as Headroom tests its own. Errors: Error that says what does not hold.
void check_softsign();
