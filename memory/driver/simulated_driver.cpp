#include <array>
#include <atomic>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/driver.hpp>
#include <headroom/memory/driver/internal/host_properties.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::memory {

namespace {

/// No user-space address of x86-64 or AArch64 with 47 or 48 bits lies here, so that touching one faults at once.
constexpr std::uintptr_t kFirstAddress = std::uintptr_t{1} << 52;

class SimulatedDriver final : public Driver {
  public:
    explicit SimulatedDriver(SimulatedOptions options) : options_(std::move(options)) {
        const DriverProperties& p = options_.properties;
        if (!std::has_single_bit(p.alignment) || p.granularity == 0 || p.granularity % p.alignment != 0) {
            throw DeviceError(
                fmt::format("simulated driver: alignment {} must be a power of two that divides granularity {}",
                            p.alignment, p.granularity));
        }
        next_address_ = (kFirstAddress + p.granularity - 1) / p.granularity * p.granularity;
        options_.properties.touchable = false;
        options_.properties.simulated = true;
    }

    const DriverProperties& properties() const override { return options_.properties; }
    std::size_t free_bytes() const override { return options_.properties.total_bytes - created_; }

    std::byte* reserve(std::size_t bytes) override {
        const std::size_t granularity = options_.properties.granularity;
        const std::uintptr_t address = next_address_;
        // A granule of nothing in between: ranges never touch each other.
        next_address_ += (bytes + granularity - 1) / granularity * granularity + granularity;
        return reinterpret_cast<std::byte*>(address);
    }
    void release(std::byte*, std::size_t) noexcept override {}

    PageHandle create() override {
        if (options_.properties.granularity > free_bytes()) return 0;
        created_ += options_.properties.granularity;
        return ++last_page_;
    }
    void destroy(PageHandle) noexcept override { created_ -= options_.properties.granularity; }
    void map(std::byte*, std::span<const PageHandle>) override {}
    void unmap(std::byte*, std::size_t) noexcept override {}

    std::byte* allocate_pinned(std::size_t bytes) override { return reserve(bytes); }
    void free_pinned(std::byte*, std::size_t) noexcept override {}

    // An event is its stream and its number there; all but the last `event_latency` ones have passed.
    EventHandle record(StreamId stream) override {
        return (clock(stream).recorded.fetch_add(1, std::memory_order_relaxed) + 1) << kStreamBits | stream;
    }
    bool passed(EventHandle event) override {
        const Clock& clock = this->clock(stream_of(event));
        const std::uint64_t number = event >> kStreamBits;
        return number <= clock.synchronized.load(std::memory_order_relaxed) ||
               number + static_cast<std::uint64_t>(options_.event_latency) <=
                   clock.recorded.load(std::memory_order_relaxed);
    }
    void wait(StreamId, EventHandle) override {}
    void synchronize(EventHandle event) override {
        std::atomic<std::uint64_t>& last = clock(stream_of(event)).synchronized;
        if (last.load(std::memory_order_relaxed) < event >> kStreamBits) last = event >> kStreamBits;
    }
    void destroy_event(EventHandle) noexcept override {}

  private:
    static constexpr unsigned kStreamBits = 6;
    struct alignas(64) Clock {
        std::atomic<std::uint64_t> recorded{0};
        std::atomic<std::uint64_t> synchronized{0};
    };
    static StreamId stream_of(EventHandle event) { return event & ((1u << kStreamBits) - 1); }
    Clock& clock(StreamId stream) { return clocks_[stream % clocks_.size()]; }

    SimulatedOptions options_;
    std::uintptr_t next_address_ = 0;
    PageHandle last_page_ = 0;
    std::size_t created_ = 0;
    std::array<Clock, std::size_t{1} << kStreamBits> clocks_;  ///< by stream; threads don't share a cache line
};

}  // namespace

std::unique_ptr<Driver> make_simulated_driver(SimulatedOptions options) {
    return std::make_unique<SimulatedDriver>(std::move(options));
}

std::unique_ptr<Driver> make_simulated_host_driver() {
    SimulatedOptions options;
    options.properties = host_properties();
    options.properties.name = "simulated host";
    return make_simulated_driver(std::move(options));
}

}  // namespace headroom::memory
