// What scripts/instructions counts under callgrind: recording ops on a tiny tensor, and differentiating them. Counts of
// instructions repeat exactly where times on a shared machine do not.
//
//     core_instructions record 2000      # ops recorded, then dropped
//     core_instructions train 2000       # the same, differentiated
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/unary.hpp>

using namespace headroom;

namespace {

constexpr int chain_length = 100;

/// A chain of ops that each save an input, as long as a small model's step.
Tensor chain(const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < chain_length; ++i) y = square(y);
    return y;
}

int run(std::string_view name, std::int64_t ops) {
    Context context = Context::cpu({.threads = 1, .memory_limit = 64'000'000});
    Tensor x = context.from_host(std::vector<float>{1.0f}, {1}).requires_grad_();
    for (std::int64_t i = 0; i < ops / chain_length; ++i) {
        Tensor y = chain(x);
        if (name == "train") backward(y);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view name = argc == 3 ? argv[1] : "";
    const std::int64_t ops = argc == 3 ? std::atoll(argv[2]) : 0;
    if ((name != "record" && name != "train") || ops < chain_length) {
        std::fprintf(stderr, "usage: core_instructions record|train OPS, with at least %d ops\n", chain_length);
        return 2;
    }
    return run(name, ops);
}
