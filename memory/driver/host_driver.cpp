#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include <headroom/memory/driver.hpp>
#include <headroom/memory/driver/internal/host_properties.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::memory {

namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;  // a huge page of x86-64
constexpr std::size_t kHostAlignment = 64;                  // a cache line, and the widest vector register

[[noreturn]] void fail(std::string_view call, std::size_t bytes) {
    throw DeviceError(fmt::format("host memory: {} of {} bytes failed: {}; check ulimit -v and vm.overcommit_memory",
                                  call, bytes, std::generic_category().message(errno)));
}

/// The number in a one-number file such as a control group's limit; `otherwise` if there is none.
std::size_t number_in(const char* file, std::size_t otherwise) {
    std::ifstream stream(file);
    std::size_t value = 0;
    return stream >> value ? value : otherwise;
}

/// What `ulimit -v` leaves beside the program itself, its threads and what it reads.
std::size_t addresses() {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
    constexpr rlim_t itself = rlim_t{2} << 30;
    return limit.rlim_cur - std::min(limit.rlim_cur / 2, itself);
}

std::size_t physical_bytes() {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t machine = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page;
    const std::size_t group = std::min(number_in("/sys/fs/cgroup/memory.max", machine),
                                       number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", machine));
    return std::min({machine, group, addresses()});
}

/// A page of the host has no identity before it is mapped, so that all handles are alike.
class HostDriver final : public Driver {
  public:
    const DriverProperties& properties() const override { return properties_; }

    std::size_t free_bytes() const override {
        std::ifstream stream("/proc/meminfo");
        std::string word;
        while (stream >> word) {
            std::size_t kibibytes = 0;
            if (word == "MemAvailable:" && stream >> kibibytes) return std::min(kibibytes * 1024, left());
        }
        return left();
    }

    std::byte* reserve(std::size_t bytes) override {
        // One granule more, so that an aligned range lies inside.
        void* const mapped = mmap(nullptr, bytes + kGranularity, PROT_NONE, kReserved, -1, 0);
        if (mapped == MAP_FAILED) fail("reserve", bytes);
        auto* const start = static_cast<std::byte*>(mapped);
        const std::size_t ahead = -reinterpret_cast<std::uintptr_t>(start) % kGranularity;
        if (ahead > 0) munmap(start, ahead);
        munmap(start + ahead + bytes, kGranularity - ahead);
        return start + ahead;
    }
    void release(std::byte* address, std::size_t bytes) noexcept override { munmap(address, bytes); }

    PageHandle create() override {
        if (kGranularity > left()) return 0;
        created_ += kGranularity;
        return 1;
    }
    void destroy(PageHandle) noexcept override { created_ -= kGranularity; }

    void map(std::byte* address, std::span<const PageHandle> pages) override {
        const std::size_t bytes = pages.size() * kGranularity;
        if (mprotect(address, bytes, PROT_READ | PROT_WRITE) != 0) fail("map", bytes);
        // Tensors are read and written as a whole; without huge pages the processor misses its translation cache. A
        // kernel that has none refuses, which costs speed only.
        madvise(address, bytes, MADV_HUGEPAGE);
    }
    void unmap(std::byte* address, std::size_t count) noexcept override {
        const std::size_t bytes = count * kGranularity;
        // Splitting a range may fail when the process has too many; its pages go all the same.
        if (mmap(address, bytes, PROT_NONE, kReserved | MAP_FIXED, -1, 0) == MAP_FAILED) {
            madvise(address, bytes, MADV_DONTNEED);
        }
    }

    // The processor copies from any address, so that nothing has to be locked.
    std::byte* allocate_pinned(std::size_t bytes) override {
        return static_cast<std::byte*>(
            std::aligned_alloc(kHostAlignment, (bytes + kHostAlignment) / kHostAlignment * kHostAlignment));
    }
    void free_pinned(std::byte* address, std::size_t) noexcept override { std::free(address); }

    // Work is done when its call returns, so that every event has passed when it is recorded.
    EventHandle record(StreamId) override { return 1; }
    bool passed(EventHandle) override { return true; }
    void wait(StreamId, EventHandle) override {}
    void synchronize(EventHandle) override {}
    void destroy_event(EventHandle) noexcept override {}

  private:
    static constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    std::size_t left() const { return properties_.total_bytes - created_; }

    const DriverProperties properties_ = host_properties();
    std::size_t created_ = 0;
};

}  // namespace

DriverProperties host_properties() {
    DriverProperties properties;
    properties.name = "host";
    properties.granularity = kGranularity;
    properties.alignment = kHostAlignment;
    properties.total_bytes = physical_bytes();
    // No more than the memory: tools such as valgrind and limits on address space allow little beyond. Should pages
    // have to move to other addresses, further ranges are reserved.
    properties.address_bytes = properties.total_bytes / kGranularity * kGranularity;
    properties.touchable = true;
    properties.synchronous = true;
    return properties;
}

StreamId Driver::adopt(void*) {
    throw DeviceError(fmt::format("{}: it can't adopt streams; name streams by number", properties().name));
}

std::unique_ptr<Driver> make_host_driver() { return std::make_unique<HostDriver>(); }

}  // namespace headroom::memory
