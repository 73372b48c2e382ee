// Uses an installed Headroom the way a program outside of this repository does: with an op of its own, whose gradient,
// replay and rehearsal are checked here, by hand and as Headroom checks its own. Prints the version; any mistake ends
// it with an error.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <headroom/headroom.hpp>

#include "softsign.hpp"

using namespace headroom;

namespace {

const std::vector<float> values{-3.0f, -0.5f, 0.25f, 2.0f};

void check(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "consumer: %s\n", what);
    std::exit(1);
}

struct Run {
    std::vector<float> gradient;
    std::size_t peak;
};

/// The gradient of the sum of squares of softsign(x), by an op that stands in a region of its own.
Run differentiate(Context& context) {
    const Shape shape{static_cast<std::int64_t>(values.size())};
    Tensor x = context.from_host(values, shape).requires_grad_();
    Tensor y;
    {
        RegionScope region(context, context.memory().intern("softsign"));
        y = softsign(softsign(x));
    }
    backward(matmul(y.reshape({1, -1}), y.reshape({-1, 1})));
    return {x.grad().to_vector<float>(), context.memory().statistics().peak_allocated};
}

Run differentiate_with(Context context, bool recompute) {
    if (recompute) context.policy("softsign", recompute_all());
    return differentiate(context);
}

/// What asking for a GPU says; nothing if there is one.
std::string refusal() {
    try {
        Context::cuda(0);
        return "";
    } catch (const DeviceError& error) {
        return error.what();
    }
}

}  // namespace

int main() {
    if (!config::cuda)
        check(refusal().starts_with("cuda: this build of Headroom has no CUDA"), "no CUDA, and no error");
    const Run kept = differentiate_with(Context::cpu({.threads = 1}), false);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double x = values[i];
        const double inner = x / (1 + std::abs(x));
        const double outer = inner / (1 + std::abs(inner));
        const double expected = 2 * outer * std::pow(1 - std::abs(outer), 2) * std::pow(1 - std::abs(inner), 2);
        check(std::abs(kept.gradient[i] - expected) < 1e-6, "the op's gradient is wrong");
    }
    const Run replayed = differentiate_with(Context::cpu({.threads = 1}), true);
    check(replayed.gradient == kept.gradient, "replaying the op changed the gradient's bits");
    const Run rehearsed = differentiate_with(Context::dry({.threads = 1}), true);
    check(rehearsed.peak == replayed.peak, "the rehearsal's peak differs from the real one");

    check_softsign();

    std::printf("headroom %s, built for %s\n", version, config::cpu_arch);
    return 0;
}
