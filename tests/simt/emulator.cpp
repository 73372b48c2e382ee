#include <headroom/tests/simt/emulator.hpp>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <cxxabi.h>
#include <headroom/tests/simt/running_block.hpp>
#include <headroom/tests/simt/sanitizers.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::simt {
namespace {

// A fiber of ThreadSanitizer's takes most of a millisecond to make, and it can hold some 8000 of them.
constexpr std::size_t kMostFibers = 1024;

/// What an emulator that is gone leaves to this thread's next one: ThreadSanitizer does not give back all that a fiber
/// took, and a process has only so many mappings.
std::vector<std::vector<std::unique_ptr<Fiber>>>& spare_fibers() {
    static thread_local std::vector<std::vector<std::unique_ptr<Fiber>>> spare;
    return spare;
}

std::string demangled(const char* name) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                           std::free);
    return status == 0 ? text.get() : name;
}

// While a launch runs, sanitizers' reports carry its context.
struct ReportContext {
    explicit ReportContext(const std::string& text) : line("while emulating " + text + "\n") {
        sanitizers::report_with(line.c_str());
    }
    ~ReportContext() { sanitizers::report_with(nullptr); }
    std::string line;
};

// ThreadSanitizer must not see the same addresses in two blocks, which nothing orders: there, blocks live until the
// launch ends. Then what CUDA threads did is visible to the host.
struct FinishedBlocks {
    explicit FinishedBlocks(void* token) : end_token(token) {}
    ~FinishedBlocks() { sanitizers::acquire(end_token); }
    std::vector<std::unique_ptr<RunningBlock>> blocks;
    void* end_token;
};

}  // namespace

Emulator::Emulator() : Emulator(test::chosen_seed()) {}
Emulator::Emulator(std::uint64_t seed) : seed_(seed), fibers_(std::exchange(spare_fibers(), {})) {}
Emulator::~Emulator() {
    if (spare_fibers().size() < fibers_.size()) spare_fibers() = std::move(fibers_);
}

void Emulator::reseed(std::uint64_t seed) {
    seed_ = seed;
    launches_ = 0;
}

std::vector<Fiber*> Emulator::fibers_for_block(unsigned threads) {
    const std::size_t sets = sanitizers::kRaces ? std::max<std::size_t>(2, kMostFibers / threads) : 1;
    if (next_set_ >= sets) next_set_ = 0;  // the last block was smaller, and had more
    if (next_set_ >= fibers_.size()) fibers_.resize(next_set_ + 1);
    std::vector<std::unique_ptr<Fiber>>& set = fibers_[next_set_];
    while (set.size() < threads) set.push_back(std::make_unique<Fiber>());
    std::vector<Fiber*> fibers;
    for (unsigned i = 0; i < threads; ++i) fibers.push_back(set[i].get());
    next_set_ = (next_set_ + 1) % sets;
    return fibers;
}

std::vector<std::uint64_t> Emulator::draw_blocks(std::uint64_t grid) {
    std::vector<std::uint64_t> blocks(std::min(grid, most_blocks_));
    std::iota(blocks.begin(), blocks.end(), std::uint64_t{0});
    if (blocks.size() < grid) {  // the first ones are there
        const std::size_t begin = kEnds, end = blocks.size() - kEnds;
        for (std::size_t i = begin; i < end; ++i) blocks[i] = kEnds + random_() % (grid - 2 * kEnds);
        for (std::size_t i = end; i < blocks.size(); ++i) blocks[i] = grid - (blocks.size() - i);
    }
    std::shuffle(blocks.begin(), blocks.end(), random_);
    return blocks;
}

void Emulator::run(const kernels::device::LaunchShape& shape, const char* kernel,
                   const std::function<void(kernels::device::EmulatedThread&)>& body) {
    const Launch launch{shape, demangled(kernel), seed_, body, &begin_token_, &end_token_};
    random_.seed(seed_ ^ (++launches_ * 0x9e3779b97f4a7c15u));
    FinishedBlocks finished(&end_token_);
    for (const std::uint64_t number : draw_blocks(std::uint64_t{shape.x} * shape.y * shape.z)) {
        const auto x = static_cast<std::uint32_t>(number % shape.x),
                   y = static_cast<std::uint32_t>(number / shape.x % shape.y),
                   z = static_cast<std::uint32_t>(number / shape.x / shape.y);
        auto block = std::make_unique<RunningBlock>(launch, x, y, z, random_(), fibers_for_block(shape.threads));
        const ReportContext context(block->context());
        sanitizers::release(&begin_token_);
        block->run();
        if (sanitizers::kRaces) finished.blocks.push_back(std::move(block));
    }
}

}  // namespace headroom::simt
