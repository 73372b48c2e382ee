#pragma once
// Traces of programs with several streams, which the framework can't run yet: their sizes, order and synchronisation
// are those of a GPT-2 trained in the way that the name says.
//
//     Trace trace = offload();
#include <headroom/bench/traces/trace.hpp>

namespace headroom::traces {

/// What a block keeps for backward is copied to the host by a copy stream while the next block runs, and comes back
/// while the block after it runs backward.
Trace offload();

/// Four micro-batches of different lengths under way at a time, each on its stream; the lengths change their streams
/// from step to step. Inputs come from stream 0, gradients are summed there.
Trace four_streams();

/// Memory that two streams need in turn: activations on the compute stream, then, when these are gone, gathered weights
/// that a communication stream fills and the compute stream reads.
Trace side_stream();

}  // namespace headroom::traces
