#pragma once
// Options that trade speed against digits, repeatable bits or memory. A context sets them for its stream; a dry run
// with the same options takes the same scratch.
//
//     Context context = Context::cuda(0, {.compute = {.tf32 = true, .scratch_budget = std::size_t{1} << 30}});
//     const CudaStream stream{.state = &state, .device = device, .compute = {.own_kernels = true}};
#include <cstddef>

namespace headroom::kernels {

/// On the CPU each result is computed in one way, which repeats: only the scratch budget and `in_place` have an effect
/// there.
struct ComputeOptions {
    /// f32 operands of matrix products and of convolutions are rounded to TF32 (10 bits of fraction) and multiplied by
    /// tensor cores: several times as fast. Kernels of our own multiply f32 as it is, and so do GPUs of compute
    /// capability 7.5, which have no TF32.
    bool tf32 = false;
    /// The first call of a product, a convolution or an attention tries several algorithms of cuBLASLt or cuDNN, waits
    /// for them, and keeps the fastest, until 100 s are spent, or 5 s for one shape. The winner may differ from run to
    /// run, and with it the last bits, unless the choices of an earlier run are read (`ContextOptions::tuning_file`).
    /// Untuned, the first algorithm that the library proposes is used: the same in every run with the same device and
    /// versions. Products that add to their result are tried on scratch of its size, if the scratch budget has room for
    /// that; convolutions that do are not tuned.
    bool tune = false;
    /// Use only algorithms whose bits repeat. If false, cuDNN's gradients of convolutions may add their parts in the
    /// order of arrival; its gradient of attention does, with scratch that is linear in the sequence. Forward passes
    /// repeat in any case, because recomputation needs that.
    bool deterministic = true;
    /// Use neither cuBLASLt nor cuDNN, which then need not be installed. Slow.
    bool own_kernels = false;
    /// Bytes of memory that one op may take to be faster. Scratch that an op needs in any case does not count, nor do
    /// cuBLASLt's 32 MiB. The budget limits each of these by itself: on a GPU, cuDNN's convolutions and its gradient of
    /// attention, which is computed in parts (with 0 the project's own kernels compute it), the chunks of
    /// `linear_cross_entropy` and of `feed_forward`, and the memory on which tuning tries products; everywhere, the
    /// gradients that the forward pass of `linear_cross_entropy` keeps, so that backward need not compute the logits
    /// again. Another budget may give other bits. `fit_scratch_budget` finds out how much memory a program has free
    /// anyway.
    std::size_t scratch_budget = std::size_t{256} << 20;

    /// A micro-batch that comes again (see `optim::GradientAccumulator::accumulate` with inputs) is launched as one
    /// CUDA graph, and so is an optimizer's step: for small models, where a GPU waits for the host. Gradients keep
    /// their memory from step to step, and graphs keep theirs.
    bool graphs = false;

    /// An op writes its result over an input that nothing else needs, with the same bits. False: to see what that
    /// saves.
    bool in_place = true;

    bool operator==(const ComputeOptions&) const = default;
};

}  // namespace headroom::kernels
