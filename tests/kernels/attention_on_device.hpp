#pragma once
// An attention with its gradient on a GPU, or in the emulator: what tests of its kernels there share.
//
//     run(*gpu, trial);              // forward and gradient
//     expect_matches(trial, 0, Weights::rounded);
#include <headroom/tests/kernels/attention_trial.hpp>
#include <headroom/tests/kernels/gpu.hpp>

namespace headroom::kernels::test {

/// A trial's arrays on the device.
struct OnDevice {
    kernels::Attention forward;
    kernels::AttentionGradient gradient;

    OnDevice(Gpu& gpu, const AttentionTrial& t, float beta) : forward(t.forward()), gradient(t.gradient(beta)) {
        forward.q = gradient.q = gpu.put(t.q);
        forward.k = gradient.k = gpu.put(t.k);
        forward.v = gradient.v = gpu.put(t.v);
        forward.o = gradient.o = gpu.put(t.o);
        forward.lse = gradient.lse = gpu.put(t.lse);
        gradient.dy = gpu.put(t.dy);
        gradient.dq = gpu.put(t.dq);
        gradient.dk = gpu.put(t.dk);
        gradient.dv = gpu.put(t.dv);
        if (t.mask) {
            const Shape scores{t.shape.batch, t.shape.heads, t.shape.queries, t.shape.keys};
            forward.mask.values = gradient.mask.values = broadcast_to(gpu.put(*t.mask), scores);
        }
        if (t.lengths) forward.mask.lengths = gradient.mask.lengths = gpu.put(*t.lengths);
    }
    void run(Gpu& gpu) const {
        gpu.run<AttentionPlan>(forward);
        gpu.run<AttentionGradientPlan>(gradient);
    }
    void get(Gpu& gpu, AttentionTrial& t) const {
        gpu.get(forward.o, t.o);
        gpu.get(forward.lse, t.lse);
        gpu.get(gradient.dq, t.dq);
        gpu.get(gradient.dk, t.dk);
        gpu.get(gradient.dv, t.dv);
    }
};

/// Forward and gradient; results come back into the trial.
inline void run(Gpu& gpu, AttentionTrial& t, float beta = 0) {
    const OnDevice device(gpu, t, beta);
    device.run(gpu);
    device.get(gpu, t);
}

}  // namespace headroom::kernels::test
