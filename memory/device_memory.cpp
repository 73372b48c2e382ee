#include <headroom/memory/device_memory.hpp>

#include <tuple>

#include <headroom/memory/allocator/internal/impl.hpp>
#include <headroom/memory/memory_scope.hpp>

namespace headroom::memory {

namespace {

std::unique_ptr<Driver> checked(std::unique_ptr<Driver> driver) {
    if (!driver) throw Error("device memory: the driver is null; pass one, such as make_host_driver()");
    return driver;
}

}  // namespace

DeviceMemory::DeviceMemory(std::unique_ptr<Driver> driver, MemoryOptions options)
    : impl_(std::make_unique<Impl>(this, checked(std::move(driver)), std::move(options))) {}
DeviceMemory::~DeviceMemory() = default;

Allocation DeviceMemory::allocate(std::size_t bytes, StreamId stream, Tag tag, PoolId pool) {
    return impl_->allocate(bytes, stream, tag, pool);
}
void DeviceMemory::deallocate(Block* block) { impl_->deallocate(block); }
void DeviceMemory::record_use(Block* block, StreamId stream) { impl_->record_use(block, stream); }
PathId DeviceMemory::intern(std::string_view path) { return impl_->intern(path); }
std::string DeviceMemory::path(PathId id) const { return impl_->path(id); }
PoolId DeviceMemory::open_pool() { return impl_->open_pool(); }
void DeviceMemory::close_pool(PoolId pool) { impl_->close_pool(pool); }
MemoryStatistics DeviceMemory::statistics() const { return impl_->statistics(); }
std::vector<std::pair<std::string, std::size_t>> DeviceMemory::largest_paths(std::size_t count) const {
    return impl_->largest_paths(count, false);
}
MemoryPeak DeviceMemory::peak(std::size_t paths) const { return impl_->peak(paths); }
void DeviceMemory::reset_peak() { impl_->reset_peak(); }
std::size_t DeviceMemory::trim() { return impl_->trim(); }
void DeviceMemory::begin_step() noexcept { impl_->begin_step(); }
bool DeviceMemory::keeps_history() const noexcept { return impl_->keeps_history(); }
void DeviceMemory::start_history(std::size_t events) { impl_->start_history(events); }
MemorySnapshot DeviceMemory::snapshot() const { return impl_->snapshot(); }
const DriverProperties& DeviceMemory::properties() const { return impl_->properties(); }
std::size_t DeviceMemory::limit() const { return impl_->limit(); }
void DeviceMemory::on_out_of_memory(std::function<bool(const MemoryReport&)> handler) {
    impl_->on_out_of_memory(std::move(handler));
}
std::vector<PoolStatistics> DeviceMemory::pool_statistics() const { return impl_->pool_statistics(); }
StreamId DeviceMemory::adopt_stream(void* stream) { return impl_->adopt_stream(stream); }
void DeviceMemory::set_limit(std::size_t bytes) { impl_->set_limit(bytes); }
const MemoryOptions& DeviceMemory::options() const { return impl_->options(); }

MemoryScope::MemoryScope(DeviceMemory& memory) : memory_(memory) {
    std::tie(watermark_, at_entry_) = memory.impl_->open_mark();
}
MemoryScope::~MemoryScope() { memory_.impl_->close_mark(watermark_); }
std::size_t MemoryScope::peak() const { return memory_.impl_->mark(watermark_) - at_entry_; }
std::int64_t MemoryScope::live() const {
    return static_cast<std::int64_t>(memory_.impl_->live()) - static_cast<std::int64_t>(at_entry_);
}

}  // namespace headroom::memory
