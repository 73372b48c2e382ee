// While the host waits for a device, or a call of the driver takes long, other threads' requests are served from what
// they gave back: a driver whose calls take until those requests are done proves it.
#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/pinned_pool.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include <headroom/memory/error.hpp>
#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::memory::test {
namespace locks_test {

constexpr Tag kTag{};

/// Where one call of the driver stops, and another thread lets it go on.
class Gate {
  public:
    /// The next call of this name will stop.
    void close(std::string call) {
        const std::lock_guard guard(mutex_);
        call_ = std::move(call);
        reached_ = open_ = false;
    }
    void pass(const char* call) {
        std::unique_lock guard(mutex_);
        if (call_ != call) return;
        call_.clear();
        reached_ = true;
        changed_.notify_all();
        if (!changed_.wait_for(guard, kLong, [&] { return open_; })) {
            ADD_FAILURE() << call << ": other threads waited for this call";
        }
    }
    bool wait_until_reached() {
        std::unique_lock guard(mutex_);
        return changed_.wait_for(guard, kLong, [&] { return reached_; });
    }
    void open() {
        const std::lock_guard guard(mutex_);
        open_ = true;
        changed_.notify_all();
    }

  private:
    static constexpr std::chrono::seconds kLong{300};  // of a test that fails
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string call_;
    bool reached_ = false;
    bool open_ = false;
};

class SlowDriver final : public Driver {
  public:
    SlowDriver(std::unique_ptr<Driver> inner, Gate& gate) : inner_(std::move(inner)), gate_(gate) {}

    const DriverProperties& properties() const override { return inner_->properties(); }
    std::size_t free_bytes() const override { return gate_.pass("free_bytes"), inner_->free_bytes(); }
    std::byte* reserve(std::size_t bytes) override { return gate_.pass("reserve"), inner_->reserve(bytes); }
    void release(std::byte* address, std::size_t bytes) noexcept override { inner_->release(address, bytes); }
    PageHandle create() override { return gate_.pass("create"), inner_->create(); }
    void destroy(PageHandle page) noexcept override { gate_.pass("destroy"), inner_->destroy(page); }
    void map(std::byte* address, std::span<const PageHandle> pages) override {
        gate_.pass("map"), inner_->map(address, pages);
    }
    void unmap(std::byte* address, std::size_t count) noexcept override {
        gate_.pass("unmap"), inner_->unmap(address, count);
    }
    std::byte* allocate_pinned(std::size_t bytes) override {
        return gate_.pass("allocate_pinned"), inner_->allocate_pinned(bytes);
    }
    void free_pinned(std::byte* address, std::size_t bytes) noexcept override {
        gate_.pass("free_pinned"), inner_->free_pinned(address, bytes);
    }
    EventHandle record(StreamId stream) override {
        if (stream == 0) gate_.pass("record");
        return inner_->record(stream);
    }
    bool passed(EventHandle event) override { return gate_.pass("passed"), inner_->passed(event); }
    void wait(StreamId stream, EventHandle event) override { gate_.pass("wait"), inner_->wait(stream, event); }
    void synchronize(EventHandle event) override { gate_.pass("synchronize"), inner_->synchronize(event); }
    void destroy_event(EventHandle event) noexcept override { inner_->destroy_event(event); }
    bool capturing(StreamId stream) override {
        if (stream == 0) gate_.pass("capturing");
        return inner_->capturing(stream);
    }

  private:
    std::unique_ptr<Driver> inner_;
    Gate& gate_;
};

/// Runs `slow` until it stops in the call, then `quick` to its end, then the rest of `slow`.
void run_beside(Gate& gate, const char* call, const std::function<void()>& slow, const std::function<void()>& quick) {
    gate.close(call);
    std::thread other(slow);
    EXPECT_TRUE(gate.wait_until_reached()) << call << " was not called";
    quick();
    gate.open();
    other.join();
}

constexpr std::size_t kGranule = 2 << 20;

/// Two streams that have given a small block back, and a checkerboard of large ones of the first.
class LocksTest : public ::testing::TestWithParam<const char*> {
  protected:
    LocksTest() {
        for (const StreamId stream : {0u, 1u}) memory_.deallocate(memory_.allocate(4096, stream, kTag).handle);
        for (int i = 0; i < 12; ++i) blocks_.push_back(memory_.allocate(2 * kGranule, 0, kTag).handle);
        for (std::size_t i = 0; i < blocks_.size(); i += 2) memory_.deallocate(std::exchange(blocks_[i], nullptr));
    }
    ~LocksTest() override {
        for (Block* block : blocks_) memory_.deallocate(block);
    }
    /// A block of one stream that another one's work uses: an event of that is recorded when the block is given back.
    void use(std::size_t bytes, StreamId owner, StreamId user) {
        Block* const block = memory_.allocate(bytes, owner, kTag).handle;
        memory_.record_use(block, user);
        memory_.deallocate(block);
    }
    /// The other thread may have taken what was cached, so that the first block is one that is given back.
    void hit() {
        memory_.deallocate(std::exchange(own_, nullptr));
        for (int i = 0; i < 100; ++i) memory_.deallocate(memory_.allocate(4096, 1, kTag).handle);
    }

    Gate gate_;
    DeviceMemory memory_{std::make_unique<SlowDriver>(make_simulated_gpu(), gate_), {.limit = 64 * kGranule}};
    std::vector<Block*> blocks_;
    Block* own_ = memory_.allocate(4096, 1, kTag).handle;
};

TEST_P(LocksTest, AHitGoesOnWhileAnotherThreadIsInTheDriver) {
    const std::string call = GetParam();
    run_beside(
        gate_, GetParam(),
        [&] {
            if (call == "passed") use(2 * kGranule, 0, 1);
            if (call == "free_bytes" || call == "passed") {
                EXPECT_THROW(memory_.allocate(100 * kGranule, 2, kTag), OutOfMemory);
            } else if (call == "record") {
                use(4096, 2, 0);
            } else if (call == "wait") {
                memory_.deallocate(memory_.allocate(2 * kGranule, 2, kTag).handle);
            } else if (call == "destroy") {
                memory_.trim();
            } else if (call == "create") {
                memory_.deallocate(memory_.allocate(20 * kGranule, 0, kTag).handle);
            } else if (call == "reserve") {
                memory_.close_pool(memory_.open_pool());
            } else {  // moves pages
                memory_.deallocate(memory_.allocate(12 * kGranule, 0, kTag).handle);
            }
        },
        [&] {
            hit();
            // Nor does a request that finds nothing cached wait for the device.
            if (call == "synchronize") memory_.deallocate(memory_.allocate(100'000, 1, kTag).handle);
        });
}

INSTANTIATE_TEST_SUITE_P(Calls, LocksTest,
                         ::testing::Values("free_bytes", "passed", "record", "wait", "destroy", "create", "reserve",
                                           "map", "unmap", "synchronize"),
                         [](const auto& info) { return std::string(info.param); });

class PinnedLocksTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PinnedLocksTest, AHitGoesOnWhileAnotherThreadIsInTheDriver) {
    const std::string call = GetParam();
    Gate gate;
    SimulatedOptions options;
    options.properties = make_simulated_gpu()->properties();
    options.event_latency = 1'000'000;
    PinnedPool pool(std::make_unique<SlowDriver>(make_simulated_driver(options), gate), {.limit = 64 << 10});
    PinnedBlock own = pool.allocate(4096);
    pool.allocate(16 << 10);
    {
        PinnedBlock block = pool.allocate(32 << 10);
        block.record_use(0);
    }
    const PinnedBlock live = call == "synchronize" ? pool.allocate(16 << 10) : PinnedBlock();
    run_beside(
        gate, GetParam(),
        [&] {
            if (call == "allocate_pinned") {
                pool.allocate(8192);
            } else if (call == "record") {
                PinnedBlock block = pool.allocate(16 << 10);
                block.record_use(0);
            } else {  // waits for the one that is pending
                pool.allocate(32 << 10);
            }
        },
        [&] {
            own.reset();
            for (int i = 0; i < 100; ++i) pool.allocate(4096);
        });
}

INSTANTIATE_TEST_SUITE_P(Calls, PinnedLocksTest,
                         ::testing::Values("allocate_pinned", "free_pinned", "record", "passed", "synchronize"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace locks_test
}  // namespace headroom::memory::test
