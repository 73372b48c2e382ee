#pragma once
// Options that trade speed against precision, repeatability or memory. A context sets them for its stream; a dry run
// with the same options takes the same scratch.
//
//     Context context = Context::cuda(0, {.compute = {.tf32 = true, .scratch_budget = std::size_t{1} << 30}});
//     const CudaStream stream{.state = &state, .device = device, .compute = {.own_kernels = true}};
#include <cstddef>

namespace headroom::kernels {

/// On the CPU there is one, repeatable way to compute each result: only the scratch budget and `in_place` have an
/// effect.
struct ComputeOptions {
    /// Round f32 operands of matrix products and convolutions to TF32 (10 bits of fraction), so that tensor cores
    /// multiply them: several times as fast. The project's own kernels multiply unrounded f32, and so do GPUs of
    /// compute capability 7.5, which have no TF32.
    bool tf32 = false;
    /// Time several algorithms of cuBLASLt or cuDNN in the first call of each product, convolution or attention, which
    /// waits for them, and keep the fastest. Stops after 100 s in all, or 5 s for one shape. The winner may differ from
    /// run to run, and with it the last bits, unless the choices of an earlier run are loaded
    /// (`ContextOptions::tuning_file`). Without tuning, the library's first proposal is used, which is the same in
    /// every run with the same device and versions. Products that add to their result are tried on scratch of the
    /// result's size, if the scratch budget has room. Convolutions that add to their result are not tuned.
    bool tune = false;
    /// Use only algorithms whose bits repeat. If false, cuDNN's convolution gradients may add their parts in order of
    /// arrival, and its attention gradient does, with scratch linear in the sequence length. Forward passes always
    /// repeat, because recomputation requires it.
    bool deterministic = true;
    /// Use neither cuBLASLt nor cuDNN, so that they need not be installed. Slow.
    bool own_kernels = false;
    /// Bytes that one op may use to run faster. Scratch that an op needs in any case does not count, nor do cuBLASLt's
    /// 32 MiB. The budget applies separately to each of: on a GPU, cuDNN's convolutions; its attention gradient, which
    /// is computed in parts (at 0 the project's own kernels compute it); the chunks of `linear_cross_entropy` and
    /// `feed_forward`; and the memory that tuning tries products on. On all devices: the gradients that the forward
    /// pass of `linear_cross_entropy` keeps, so that backward need not recompute the logits. Another budget may give
    /// different bits. `fit_scratch_budget` finds the budget that a program has room for.
    std::size_t scratch_budget = std::size_t{256} << 20;

    /// Launch a repeated micro-batch (see `optim::GradientAccumulator::accumulate` with inputs) and the optimizer's
    /// step as one CUDA graph each. This speeds up small models, where the GPU waits for the host. Gradients keep their
    /// memory from step to step, and graphs keep theirs.
    bool graphs = false;

    /// Let an op overwrite an input that nothing else needs; the bits are the same. Set it to false to measure the
    /// savings.
    bool in_place = true;

    bool operator==(const ComputeOptions&) const = default;
};

}  // namespace headroom::kernels
