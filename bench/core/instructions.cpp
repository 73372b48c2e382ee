// What scripts/instructions counts under callgrind: recording ops on a tiny tensor, and differentiating them, by
// several ways of recomputing. Counts of instructions repeat exactly where times on a shared machine do not.
//
//     core_instructions record/none 2000       # ops recorded, then dropped
//     core_instructions train/cheap 2000       # the same, differentiated
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/unary.hpp>

using namespace headroom;

namespace {

constexpr int kChain = 100, kModule = 10;

/// Ops that each save an input, in modules; as long as a small model's step.
Tensor chain(const Tensor& x, PathId path) {
    Tensor y = x;
    for (int i = 0; i < kChain; i += kModule) {
        const RegionScope scope(x.context(), path);
        for (int j = 0; j < kModule; ++j) y = square(y);
    }
    return y;
}

/// Each op may write over its input.
Tensor moved(const Tensor& x) {
    Tensor y = square(x);
    for (int i = 1; i < kChain; ++i) y = relu(std::move(y));
    return y;
}

/// As a plan has them: every other op of a module runs again.
Policy rules() {
    std::vector<Rule> rules;
    for (std::uint32_t i = 0; i < kModule; i += 2)
        rules.push_back({.path = "module", .ordinal = i, .answer = Answer::recompute});
    return Policy(std::move(rules));
}

const std::map<std::string, Policy>& policies() {
    static const std::map<std::string, Policy> all{{"none", inherit_all()},
                                                   {"keep", keep_all()},
                                                   {"cheap", recompute_cheap()},
                                                   {"all", recompute_all()},
                                                   {"rules", rules()}};
    return all;
}

void run(const std::string& way, bool differentiates, std::int64_t ops) {
    Context context = Context::cpu({.threads = 1, .memory_limit = 64'000'000});
    const PathId path = context.module_path("module");
    if (way != "moved") context.policy("module", policies().at(way));
    Tensor x = context.from_host(std::vector<float>{1.0f}, {1}).requires_grad_();
    for (std::int64_t i = 0; i < ops / kChain; ++i) {
        Tensor y = way == "moved" ? moved(x) : chain(x, path);
        if (differentiates) backward(y);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::string name = argc == 3 ? argv[1] : "", way = name.substr(name.find('/') + 1);
    const std::int64_t ops = argc == 3 ? std::atoll(argv[2]) : 0;
    const bool records = name.starts_with("record/"), trains = name.starts_with("train/");
    if ((!records && !trains) || (way != "moved" && !policies().contains(way)) || ops < kChain) {
        std::fprintf(stderr, "usage: core_instructions record/WAY|train/WAY OPS: %d at least, a way: moved", kChain);
        for (const auto& [known, policy] : policies()) std::fprintf(stderr, ", %s", known.c_str());
        std::fprintf(stderr, "\n");
        return 2;
    }
    run(way, trains, ops);
}
