// Streams that are captured into a graph, on the fake GPU: no call of the allocator becomes part of the graph, and
// memory that was given back meanwhile serves others once the capture has ended.
#include <headroom/memory/device_memory.hpp>

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include <headroom/memory/error.hpp>
#include <headroom/tests/memory/fake_cuda.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::memory::test {
namespace cuda_capture_test {

constexpr Tag kTag{};

class CaptureTest : public FakeCudaTest {
  protected:
    void SetUp() override { fake_cuda::reset({.latency = 100}); }
    static void begin(StreamId stream) { fake_cuda::begin_capture(fake_cuda::stream(static_cast<int>(stream))); }
    /// The graph holds nothing of the allocator's.
    static void end(StreamId stream) {
        const fake_cuda::Graph graph = fake_cuda::end_capture(fake_cuda::stream(static_cast<int>(stream)));
        EXPECT_TRUE(graph.valid);
        EXPECT_EQ(graph.nodes, 0u);
    }
    static std::size_t reserved(const DeviceMemory& memory) { return memory.statistics().reserved; }
};

TEST_F(CaptureTest, MemoryGivenBackIsTrimmedOnceItHasEnded) {
    for (const bool several : {false, true}) {
        DeviceMemory memory(open_fake_cuda());
        if (several) memory.deallocate(memory.allocate(kPage, 1, kTag).handle);
        const PoolId pool = memory.open_pool();
        begin(0);
        Block* const block = memory.allocate(3 * kPage, 0, kTag, pool).handle;
        memory.deallocate(memory.allocate(kPage, 0, kTag, pool).handle);
        memory.deallocate(memory.allocate(5 * kPage, 0, kTag).handle);
        memory.deallocate(block);
        const std::size_t before = reserved(memory);
        EXPECT_NO_THROW(memory.trim());
        EXPECT_GE(reserved(memory), before - 2 * kPage) << "what the capture gave back may be in use";
        end(0);
        memory.close_pool(pool);
        memory.trim();
        EXPECT_EQ(reserved(memory), 0u);
    }
}

TEST_F(CaptureTest, APoolThatIsClosedMeanwhileEndsAfterwards) {
    DeviceMemory memory(open_fake_cuda());
    const PoolId pool = memory.open_pool();
    begin(0);
    Block* const block = memory.allocate(3 * kPage, 0, kTag, pool).handle;
    memory.close_pool(pool);
    memory.deallocate(block);
    EXPECT_EQ(fake_cuda::usage().mapped, 3u) << "the graph's work may use the addresses";
    end(0);
    memory.trim();
    EXPECT_EQ(fake_cuda::usage().mapped, 0u);
    EXPECT_EQ(reserved(memory), 0u);
}

TEST_F(CaptureTest, OtherStreamsGetOtherMemory) {
    DeviceMemory memory(open_fake_cuda());
    memory.deallocate(memory.allocate(kPage, 1, kTag).handle);
    begin(0);
    const Allocation captured = memory.allocate(4 * kPage, 0, kTag);
    memory.deallocate(captured.handle);
    const Allocation other = memory.allocate(4 * kPage, 1, kTag);
    EXPECT_NE(other.data, captured.data);
    EXPECT_EQ(memory.allocate(2 * kPage, 0, kTag).data, captured.data) << "its own stream need not wait";
    end(0);
    EXPECT_NO_THROW(memory.allocate(2 * kPage, 1, kTag));
}

TEST_F(CaptureTest, PagesOfBlocksGivenBackAreNotMovedIntoAnother) {
    DeviceMemory memory(open_fake_cuda(), {.limit = 8 * kPage});
    memory.deallocate(memory.allocate(kPage, 1, kTag).handle);
    begin(0);
    memory.deallocate(memory.allocate(6 * kPage, 0, kTag).handle);
    try {
        memory.allocate(4 * kPage, 1, kTag);
        FAIL() << "six of eight pages belong to the capture";
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(error.report().largest_obtainable, 2 * kPage);
    }
    EXPECT_NO_THROW(memory.deallocate(memory.allocate(2 * kPage, 1, kTag).handle));
    end(0);
    EXPECT_NO_THROW(memory.allocate(8 * kPage, 1, kTag));
}

TEST_F(CaptureTest, TheHostWaitsForMemoryOfAnotherStreamThatIsTakenInside) {
    DeviceMemory memory(open_fake_cuda());
    memory.deallocate(memory.allocate(unsigned{64}, 0, kTag).handle);
    const Allocation other = memory.allocate(4 * kPage, 1, kTag);
    memory.deallocate(other.handle);
    begin(0);
    const Allocation taken = memory.allocate(4 * kPage, 0, kTag);
    EXPECT_EQ(taken.data, other.data) << "as it would be without a capture";
    EXPECT_EQ(memory.statistics().synchronizations, 1u);
    end(0);
}

TEST_F(CaptureTest, AUseByAStreamThatIsCapturedIsWaitedForAfterwards) {
    DeviceMemory memory(open_fake_cuda());
    const Allocation block = memory.allocate(4 * kPage, 0, kTag);
    begin(1);
    memory.record_use(block.handle, 1);
    memory.deallocate(block.handle);
    EXPECT_NE(memory.allocate(4 * kPage, 2, kTag).data, block.data);
    end(1);
    const auto events = fake_cuda::calls("cuEventRecord");
    memory.trim();
    EXPECT_GT(fake_cuda::calls("cuEventRecord"), events) << "of the stream that used it";
}

TEST_F(CaptureTest, TheDefaultStreamIsLeftAloneWhileAStreamIsCapturedThatItWaitsFor) {
    DeviceMemory memory(make_cuda_driver({.streams = {nullptr, fake_cuda::stream(1)}, .library = HEADROOM_FAKE_CUDA}));
    memory.deallocate(memory.allocate(kPage, 1, kTag).handle);
    begin(1);
    memory.deallocate(memory.allocate(kPage / 2, 0, kTag).handle);
    memory.deallocate(memory.allocate(3 * kPage, 0, kTag).handle);
    EXPECT_NO_THROW(memory.trim());
    end(1);
    memory.trim();
    EXPECT_EQ(reserved(memory), 0u);
}

TEST_F(CaptureTest, RandomProgramsSpoilNoCapture) {
    std::mt19937 random(headroom::test::random_seed());
    DeviceMemory memory(open_fake_cuda(), {.limit = 40 * kPage});
    std::vector<bool> captured(4);
    std::vector<Block*> blocks;
    std::vector<PoolId> pools{0};
    int refused = 0;
    for (int step = 0; step < 20'000; ++step) {
        const StreamId stream = random() % 4;
        const unsigned dice = random() % 100;
        if (dice < 45) {
            try {
                const std::size_t bytes = random() % 3 == 0 ? random() % 4096 : random() % (6 * kPage);
                const Allocation block = memory.allocate(bytes, stream, kTag, pools[random() % pools.size()]);
                blocks.push_back(block.handle);
                if (!captured[stream])
                    fake_cuda::queue_work(fake_cuda::stream(static_cast<int>(stream)), block.data, bytes);
            } catch (const OutOfMemory&) {
                ++refused;
            }
        } else if (dice < 88) {
            if (blocks.empty()) continue;
            std::swap(blocks[random() % blocks.size()], blocks.back());
            if (random() % 4 == 0) memory.record_use(blocks.back(), stream);
            memory.deallocate(blocks.back());
            blocks.pop_back();
        } else if (dice < 92) {
            captured[stream] ? end(stream) : begin(stream);
            captured[stream] = !captured[stream];
        } else if (dice < 94) {
            if (pools.size() < 4) pools.push_back(memory.open_pool());
        } else if (dice < 96) {
            if (pools.size() > 1) memory.close_pool(pools.back());
            if (pools.size() > 1) pools.pop_back();
        } else if (dice < 97) {
            memory.trim();
        } else {
            fake_cuda::queue_work(fake_cuda::stream(static_cast<int>(stream)));
            if (captured[stream]) {
                const auto graph = fake_cuda::end_capture(fake_cuda::stream(static_cast<int>(stream)));
                EXPECT_TRUE(graph.valid);
                captured[stream] = false;
            }
        }
        ASSERT_FALSE(HasFailure()) << "step " << step;
    }
    EXPECT_GT(refused, 0);
    for (StreamId stream = 0; stream < 4; ++stream) {
        if (captured[stream]) end(stream);
    }
    for (Block* block : blocks) memory.deallocate(block);
    for (std::size_t i = 1; i < pools.size(); ++i) memory.close_pool(pools[i]);
    memory.trim();
    EXPECT_EQ(reserved(memory), 0u) << "pages were lost";
}

}  // namespace cuda_capture_test
}  // namespace headroom::memory::test
