#include <bit>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/driver.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/driver/host_properties.hpp>

namespace headroom {

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
    }

    const DriverProperties& properties() const override { return options_.properties; }
    std::size_t free_bytes() const override { return options_.properties.total_bytes - created_; }

    std::byte* reserve(std::size_t bytes) override {
        tick();
        const std::size_t granularity = options_.properties.granularity;
        const std::uintptr_t address = next_address_;
        // A granule of nothing in between: ranges never touch each other.
        next_address_ += (bytes + granularity - 1) / granularity * granularity + granularity;
        return reinterpret_cast<std::byte*>(address);
    }
    void release(std::byte*, std::size_t) noexcept override { tick(); }

    PageHandle create(std::size_t bytes) override {
        tick();
        if (bytes > free_bytes()) return 0;
        if (options_.fail_create_after >= 0 && creations_ >= options_.fail_create_after) return 0;
        ++creations_;
        created_ += bytes;
        sizes_.emplace(++last_page_, bytes);
        return last_page_;
    }
    void destroy(PageHandle page) noexcept override {
        tick();
        const auto found = sizes_.find(page);
        if (found == sizes_.end()) return;
        created_ -= found->second;
        sizes_.erase(found);
    }
    void map(std::byte*, PageHandle page, std::size_t bytes) override {
        tick();
        const auto found = sizes_.find(page);
        if (found == sizes_.end() || found->second != bytes) {
            throw DeviceError(
                fmt::format("simulated driver: map of {} bytes to page {}, which is not of that size", bytes, page));
        }
    }
    void unmap(std::byte*, std::size_t) noexcept override { tick(); }

    std::byte* allocate_pinned(std::size_t bytes) override { return reserve(bytes); }
    void free_pinned(std::byte*, std::size_t) noexcept override { tick(); }

    EventHandle record(StreamId) override {
        tick();
        recorded_.emplace(++last_event_, clock_ + options_.event_latency);
        return last_event_;
    }
    bool passed(EventHandle event) override {
        tick();
        const auto found = recorded_.find(event);
        return found == recorded_.end() || found->second <= clock_;
    }
    void wait(StreamId, EventHandle) override { tick(); }
    void synchronize(EventHandle event) override {
        tick();
        const auto found = recorded_.find(event);
        if (found != recorded_.end() && found->second > clock_) clock_ = found->second;
    }
    void destroy_event(EventHandle event) noexcept override {
        tick();
        recorded_.erase(event);
    }

  private:
    void tick() noexcept { ++clock_; }

    SimulatedOptions options_;
    std::uintptr_t next_address_ = 0;
    std::int64_t clock_ = 0;
    std::int64_t creations_ = 0;
    std::size_t created_ = 0;
    PageHandle last_page_ = 0;
    EventHandle last_event_ = 0;
    std::unordered_map<PageHandle, std::size_t> sizes_;       ///< of pages that exist
    std::unordered_map<EventHandle, std::int64_t> recorded_;  ///< the tick at which each event passes
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

}  // namespace headroom
