#include <headroom/tests/support/small_pages.hpp>

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace headroom::test {

namespace {

using namespace memory;

/// All addresses can be written from the beginning; a page is a number that counts.
class SmallPages final : public Driver {
  public:
    const DriverProperties& properties() const override { return properties_; }
    std::size_t free_bytes() const override { return properties_.total_bytes - pages_ * properties_.granularity; }

    std::byte* reserve(std::size_t bytes) override {
        void* const begin =
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (begin == MAP_FAILED) throw std::bad_alloc();
        return static_cast<std::byte*>(begin);
    }
    void release(std::byte* address, std::size_t bytes) noexcept override { munmap(address, bytes); }
    PageHandle create() override { return free_bytes() > 0 ? ++pages_ : 0; }
    void destroy(PageHandle) noexcept override { --pages_; }
    void map(std::byte*, std::span<const PageHandle>) override {}
    void unmap(std::byte*, std::size_t) noexcept override {}

    std::byte* allocate_pinned(std::size_t bytes) override { return static_cast<std::byte*>(std::malloc(bytes)); }
    void free_pinned(std::byte* address, std::size_t) noexcept override { std::free(address); }
    EventHandle record(StreamId) override { return 1; }
    bool passed(EventHandle) override { return true; }
    void wait(StreamId, EventHandle) override {}
    void synchronize(EventHandle) override {}
    void destroy_event(EventHandle) noexcept override {}

  private:
    DriverProperties properties_{.name = "host in small pages",
                                 .granularity = std::size_t{1} << 14,
                                 .alignment = 64,
                                 .total_bytes = std::size_t{1} << 30,
                                 .address_bytes = std::size_t{1} << 32,
                                 .synchronous = true};
    std::size_t pages_ = 0;
};

}  // namespace

std::unique_ptr<Driver> make_small_pages() { return std::make_unique<SmallPages>(); }

}  // namespace headroom::test
