// What counts as progress of a rank, and where it is seen to wait.
#include <headroom/memory/progress.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/data/file.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom {
namespace progress_test {

std::uint64_t steps_in(const std::function<void()>& work) {
    const std::uint64_t before = memory::progress_of_this_thread().steps;
    work();
    return memory::progress_of_this_thread().steps - before;
}

struct Numbers {
    using Batch = std::vector<std::int64_t>;
    std::int64_t size() const { return 8; }
    void read(std::span<const std::int64_t> indices, Batch& batch) const {
        batch.assign(indices.begin(), indices.end());
    }
};

TEST(Progress, IsThatOfAThread) {
    EXPECT_EQ(steps_in([] { std::thread(memory::step_forward).join(); }), 0);
    EXPECT_EQ(steps_in([] { memory::step_forward(); }), 1);
}

TEST(Progress, IsEachOpForwardAndBackward) {
    Context context = Context::cpu();
    Tensor x = ones(context, {2}).detach().requires_grad_();
    Tensor loss;
    EXPECT_EQ(steps_in([&] { loss = sum(mul(x, x)); }), 2);
    EXPECT_GE(steps_in([&] { backward(loss); }), 2);
}

TEST(Progress, IsABatch) {
    const Numbers numbers;
    for (const int workers : {0, 2}) {
        data::DataLoader loader(numbers, data::Sampler::sequential(8, 2), {.workers = workers});
        EXPECT_GE(steps_in([&] { loader.next(); }), 1);
    }
}

TEST(Progress, IsAPieceOfAFile) {
    Context context = Context::cpu();
    const test::ScratchFolder folder;
    const std::string file = folder.path() / "file";
    const Tensor x = ones(context, {4});
    EXPECT_GE(steps_in([&] { files::write_safetensors(file, context, {{"a", x.array()}, {"b", x.array()}}); }), 3);
    EXPECT_GE(steps_in([&] { files::SafetensorsFile opened(file); }), 1);
    EXPECT_GE(steps_in([&] { data::read_file(file); }), 1);
}

TEST(Progress, IsAnExchangeInWhichARankIsSeenToWait) {
    const memory::Progress* first = nullptr;
    dist::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        if (group->rank() == 0) first = &memory::progress_of_this_thread();
        any(*group, 0);
        while (group->rank() == 1 && first->waits == 0) std::this_thread::yield();  // it waits for this one
        EXPECT_GE(steps_in([&] { any(*group, 0); }), 1);
        EXPECT_EQ(memory::progress_of_this_thread().waits, 0);
    });
}

}  // namespace progress_test
}  // namespace headroom
