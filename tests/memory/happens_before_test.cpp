// The checker of the order of work finds what it is there to find.
#include <headroom/tests/memory/happens_before.hpp>

#include <gmock/gmock.h>

#include <headroom/memory/device_memory.hpp>
#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::memory::test {
namespace happens_before_test {

using ::testing::HasSubstr;

std::byte* at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

TEST(HappensBefore, AllowsReuseOnTheSameStream) {
    HappensBefore order;
    order.hand_out(at(100), 100, 3);
    order.use(at(100), 3);
    order.hand_out(at(150), 100, 3);
    EXPECT_EQ(order.violations(), "");
}

TEST(HappensBefore, ForbidsReuseElsewhereWithoutAWait) {
    HappensBefore order;
    order.hand_out(at(100), 100, 3);
    order.hand_out(at(190), 100, 4);
    EXPECT_THAT(order.violations(), HasSubstr("handed to stream 4 while work 1 of stream 3"));
}

TEST(HappensBefore, AllowsReuseAfterAWaitForTheLastUse) {
    HappensBefore order;
    order.hand_out(at(100), 100, 0);
    order.use(at(100), 0);
    order.record(7, 0);
    order.wait(1, 7);
    order.hand_out(at(100), 50, 1);
    EXPECT_EQ(order.violations(), "");
    order.hand_out(at(100), 100, 2);  // waited for neither
    EXPECT_THAT(order.violations(), HasSubstr("of stream 0"));
    EXPECT_THAT(order.violations(), HasSubstr("of stream 1"));
}

TEST(HappensBefore, ForbidsReuseAfterAWaitForAnEarlierEvent) {
    HappensBefore order;
    order.hand_out(at(100), 100, 0);
    order.record(7, 0);
    order.use(at(100), 0);
    order.wait(1, 7);
    order.hand_out(at(100), 100, 1);
    EXPECT_THAT(order.violations(), HasSubstr("while work 2 of stream 0"));
}

TEST(HappensBefore, FollowsWaitsThroughOtherStreams) {
    HappensBefore order;
    order.hand_out(at(100), 100, 0);
    order.record(7, 0);
    order.wait(1, 7);
    order.record(8, 1);
    order.wait(2, 8);
    order.hand_out(at(100), 100, 2);
    EXPECT_EQ(order.violations(), "");
}

TEST(HappensBefore, ForbidsToTakePagesAwayBeforeTheHostKnows) {
    HappensBefore order;
    order.hand_out(at(4096), 100, 0);
    order.use(at(4096), 5);
    order.record(7, 0);
    order.host_knows(7);
    order.unmap(at(4096), 4096);
    EXPECT_THAT(order.violations(), HasSubstr("unmapped while work 1 of stream 5"));
    HappensBefore other;
    other.hand_out(at(4096), 100, 0);
    other.record(7, 0);
    other.host_knows(7);
    other.unmap(at(4096), 4096);
    other.hand_out(at(4096), 100, 1);
    EXPECT_EQ(other.violations(), "");
}

/// As if the device did not wait.
class CarelessDriver final : public Driver {
  public:
    explicit CarelessDriver(std::unique_ptr<Driver> inner) : inner_(std::move(inner)) {}
    const DriverProperties& properties() const override { return inner_->properties(); }
    std::size_t free_bytes() const override { return inner_->free_bytes(); }
    std::byte* reserve(std::size_t bytes) override { return inner_->reserve(bytes); }
    void release(std::byte* address, std::size_t bytes) noexcept override { inner_->release(address, bytes); }
    PageHandle create() override { return inner_->create(); }
    void destroy(PageHandle page) noexcept override { inner_->destroy(page); }
    void map(std::byte* address, std::span<const PageHandle> pages) override { inner_->map(address, pages); }
    void unmap(std::byte* address, std::size_t count) noexcept override { inner_->unmap(address, count); }
    std::byte* allocate_pinned(std::size_t bytes) override { return inner_->allocate_pinned(bytes); }
    void free_pinned(std::byte* address, std::size_t bytes) noexcept override { inner_->free_pinned(address, bytes); }
    EventHandle record(StreamId stream) override { return inner_->record(stream); }
    bool passed(EventHandle event) override { return inner_->passed(event); }
    void wait(StreamId, EventHandle) override {}
    void synchronize(EventHandle) override {}
    void destroy_event(EventHandle event) noexcept override { inner_->destroy_event(event); }

  private:
    std::unique_ptr<Driver> inner_;
};

TEST(HappensBefore, NoticesAnAllocatorThatDoesNotWait) {
    HappensBefore order;
    DriverLog log;
    auto ordered = std::make_unique<OrderedDriver>(std::make_unique<CheckedDriver>(make_simulated_gpu(), log), order);
    const std::size_t granule = ordered->properties().granularity;
    DeviceMemory memory(std::make_unique<CarelessDriver>(std::move(ordered)), {.limit = granule});
    const Allocation block = memory.allocate(granule, 0, {});
    order.hand_out(block.data, block.bytes, 0);
    memory.deallocate(block.handle);
    const Allocation again = memory.allocate(granule, 1, {});
    order.hand_out(again.data, again.bytes, 1);
    EXPECT_THAT(order.violations(), HasSubstr("handed to stream 1 while work 1 of stream 0"));
    memory.deallocate(again.handle);
    memory.trim();
    EXPECT_THAT(order.violations(), HasSubstr("unmapped while work 1 of stream 1"));
}

}  // namespace happens_before_test
}  // namespace headroom::memory::test
