#include <headroom/kernels/attention/attention.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/attention_trial.hpp>
#include <headroom/tests/kernels/gpu.hpp>

namespace headroom::kernels {
namespace {

using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;
using test::Weights;
using Case = test::AttentionCase;
using Trial = test::AttentionTrial;

/// On tensor cores, weights are rounded.
Weights weights_of(const Case& c, Dtype dtype) {
    return is_half(dtype) && c.width <= 128 ? Weights::rounded : Weights::exact;
}

class AttentionCuda : public test::CudaTest {
  protected:
    /// Forward and gradient; results come back into the trial.
    void run(Trial& t, float beta = 0) {
        Attention forward = t.forward();
        AttentionGradient gradient = t.gradient(beta);
        for (View* x : {&forward.q, &forward.k, &forward.v, &forward.o, &forward.lse}) x->data = nullptr;
        forward.q = gradient.q = gpu->put(t.q);
        forward.k = gradient.k = gpu->put(t.k);
        forward.v = gradient.v = gpu->put(t.v);
        forward.o = gradient.o = gpu->put(t.o);
        forward.lse = gradient.lse = gpu->put(t.lse);
        gradient.dy = gpu->put(t.dy);
        gradient.dq = gpu->put(t.dq);
        gradient.dk = gpu->put(t.dk);
        gradient.dv = gpu->put(t.dv);
        run(forward, gradient);
        gpu->get(forward.o, t.o);
        gpu->get(forward.lse, t.lse);
        gpu->get(gradient.dq, t.dq);
        gpu->get(gradient.dk, t.dk);
        gpu->get(gradient.dv, t.dv);
    }
    void run(const Attention& forward, const AttentionGradient& gradient) {
        Stream any = gpu->stream;
        attention(gpu->stream, forward, gpu->scratch(attention_scratch(any, forward)));
        attention_gradient(gpu->stream, gradient, gpu->scratch(attention_gradient_scratch(any, gradient)));
    }
    void expect_f64s_results(const Case& c, Dtype dtype, Layout layout, std::mt19937_64& random) {
        SCOPED_TRACE(text(c, dtype) + " layout " + std::to_string(static_cast<int>(layout)));
        Trial trial(c, dtype, layout, random, dtype);
        run(trial);  // outputs and gradients were NaN: nothing of them may have been read
        expect_matches(trial, 0, weights_of(c, dtype));
    }
};

/// One position; rests against blocks (64, and 32 for f64) of either side; several blocks; widths that fill tiles and
/// that do not; grouped heads; a key-value cache; fewer keys than queries, so that some see none; no keys at all.
const Case kCases[] = {
    {1, 1, 1, 1, 1, 8, true},       {2, 31, 31, 2, 1, 16, true},   {1, 33, 65, 4, 2, 40, true},
    {1, 65, 33, 2, 2, 64, true},    {1, 129, 129, 1, 1, 64, true}, {1, 65, 129, 3, 1, 128, true},
    {1, 129, 65, 2, 1, 128, false}, {1, 1, 129, 4, 4, 64, true},   {1, 33, 0, 2, 1, 16, false},
    {1, 31, 33, 1, 1, 3, false},    {1, 130, 1, 1, 1, 5, true},    {1, 33, 31, 2, 1, 137, true},
};

TEST_F(AttentionCuda, MatchesF64ForAnyDtypeAndShape) {
    std::mt19937_64 random(1);
    for (const Case& c : kCases) {
        for (const Dtype dtype : kFloating) {
            expect_f64s_results(c, dtype, Layout::contiguous, random);
            if (HasFailure()) return;
        }
    }
}

}  // namespace
}  // namespace headroom::kernels
