#include <headroom/tests/simt/gpu/emulated_memory.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace headroom::kernels {

namespace {

class GuardedDriver final : public memory::Driver {
  public:
    GuardedDriver(std::shared_ptr<EmulatedMemory> memory, std::shared_ptr<EmulatedQueues> queues)
        : memory_(std::move(memory)), queues_(std::move(queues)), properties_(host_->properties()) {
        properties_.name = "emulated GPU";
        properties_.synchronous = false;
    }

    const memory::DriverProperties& properties() const override { return properties_; }
    std::size_t free_bytes() const override {
        return properties_.total_bytes - std::min(memory_->taken(), properties_.total_bytes);
    }
    std::byte* reserve(std::size_t bytes) override { return host_->reserve(bytes); }
    void release(std::byte* address, std::size_t bytes) noexcept override { host_->release(address, bytes); }
    memory::PageHandle create() override {
        if (free_bytes() < properties_.granularity) return 0;
        const memory::PageHandle page = host_->create();
        if (page != 0) memory_->take(properties_.granularity);
        return page;
    }
    void destroy(memory::PageHandle page) noexcept override {
        memory_->give_back(properties_.granularity);
        host_->destroy(page);
    }
    void map(std::byte* address, std::span<const memory::PageHandle> pages) override {
        host_->map(address, pages);
        memory_->add(address, pages.size() * properties().granularity);
    }
    void unmap(std::byte* address, std::size_t count) noexcept override {
        memory_->remove(address, count * properties().granularity);
        host_->unmap(address, count);
    }
    std::byte* allocate_pinned(std::size_t bytes) override { return host_->allocate_pinned(bytes); }
    void free_pinned(std::byte* address, std::size_t bytes) noexcept override { host_->free_pinned(address, bytes); }
    memory::EventHandle record(memory::StreamId stream) override {
        return 1 + (stream == 0 ? queues_->end(CudaQueue::compute).count : 0);  // 0 is no event
    }
    bool passed(memory::EventHandle event) override { return queues_->passed(point_of(event)); }
    void wait(memory::StreamId stream, memory::EventHandle event) override {
        if (stream == 0) queues_->wait(CudaQueue::compute, point_of(event));
    }
    void synchronize(memory::EventHandle event) override { queues_->reach(point_of(event)); }
    void destroy_event(memory::EventHandle) noexcept override {}

  private:
    static EmulatedQueues::Point point_of(memory::EventHandle event) { return {CudaQueue::compute, event - 1}; }

    std::unique_ptr<memory::Driver> host_ = memory::make_host_driver();
    std::shared_ptr<EmulatedMemory> memory_;
    std::shared_ptr<EmulatedQueues> queues_;
    memory::DriverProperties properties_;
};

}  // namespace

std::shared_ptr<EmulatedMemory> emulated_memory(int device) {
    static std::mutex mutex;
    static std::map<int, std::weak_ptr<EmulatedMemory>> devices;
    const std::lock_guard guard(mutex);
    std::shared_ptr<EmulatedMemory> memory = devices[device].lock();
    if (!memory) devices[device] = memory = std::make_shared<EmulatedMemory>();
    return memory;
}

std::unique_ptr<memory::Driver> make_guarded_driver(std::shared_ptr<EmulatedMemory> memory,
                                                    std::shared_ptr<EmulatedQueues> queues) {
    return std::make_unique<GuardedDriver>(std::move(memory), std::move(queues));
}

void EmulatedMemory::open() {
    const std::lock_guard guard(mutex_);
    if (open_++ == 0) protect(PROT_READ | PROT_WRITE);
}

void EmulatedMemory::close() noexcept {
    const std::lock_guard guard(mutex_);
    if (--open_ == 0) protect(PROT_NONE);
}

void EmulatedMemory::protect(int protection) const noexcept {
    for (const auto& [begin, end] : ranges_) mprotect(begin, static_cast<std::size_t>(end - begin), protection);
}

void EmulatedMemory::add(std::byte* address, std::size_t bytes) {
    const std::lock_guard guard(mutex_);
    std::byte* begin = address;
    std::byte* end = address + bytes;
    auto next = ranges_.lower_bound(begin);
    if (next != ranges_.begin() && std::prev(next)->second == begin) begin = (--next)->first;
    while (next != ranges_.end() && next->first <= end) {
        end = std::max(end, next->second);
        next = ranges_.erase(next);
    }
    ranges_.emplace(begin, end);
    if (open_ == 0) mprotect(address, bytes, PROT_NONE);
}

void EmulatedMemory::remove(std::byte* address, std::size_t bytes) noexcept {
    const std::lock_guard guard(mutex_);
    const auto range = std::prev(ranges_.upper_bound(address));
    const auto [begin, end] = *range;
    ranges_.erase(range);
    if (begin < address) ranges_.emplace(begin, address);
    if (address + bytes < end) ranges_.emplace(address + bytes, end);
}

}  // namespace headroom::kernels
