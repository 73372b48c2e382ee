#include <headroom/memory/cuda_driver.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/driver/internal/cuda_events.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::memory {

namespace {

constexpr std::size_t kCudaAlignment = 512;  // what cuMemAlloc gives, too: enough for every load and tensor map
constexpr std::size_t kAddressTimes = 8;     // the device's memory: addresses cost nothing, and holes in them may stay

CUdeviceptr device_address(const std::byte* address) { return reinterpret_cast<CUdeviceptr>(address); }

class CudaDriver final : public Driver {
  public:
    explicit CudaDriver(CudaDriverOptions options) : context_(options.library, options.device), events_(context_) {
        for (CUstream stream : options.streams) add(stream);
        page_.type = CU_MEM_ALLOCATION_TYPE_PINNED;  // never moved by the driver, the only type there is for a device
        page_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = context_.device()};
        read_properties();
    }

    const DriverProperties& properties() const override { return properties_; }

    std::size_t free_bytes() const override {
        const CudaContext::Current current(context_);
        std::size_t free = 0, total = 0;
        context_.check(api().cuMemGetInfo(&free, &total), "cuMemGetInfo");
        return free;
    }

    std::byte* reserve(std::size_t bytes) override {
        const CudaContext::Current current(context_);
        CUdeviceptr address = 0;
        context_.check(api().cuMemAddressReserve(&address, whole(bytes), properties_.granularity, 0, 0),
                       "cuMemAddressReserve", whole(bytes));
        return reinterpret_cast<std::byte*>(address);
    }
    void release(std::byte* address, std::size_t bytes) noexcept override {
        if (context_.forked()) return;
        const CudaContext::Current current(context_);
        context_.note(api().cuMemAddressFree(device_address(address), whole(bytes)), "cuMemAddressFree");
    }

    PageHandle create() override {
        const CudaContext::Current current(context_);
        CUmemGenericAllocationHandle page = 0;
        const CUresult code = api().cuMemCreate(&page, properties_.granularity, &page_, 0);
        if (code == CUDA_ERROR_OUT_OF_MEMORY) return 0;
        context_.check(code, "cuMemCreate", properties_.granularity);
        return page;
    }
    void destroy(PageHandle page) noexcept override {
        if (context_.forked()) return;
        const CudaContext::Current current(context_);
        context_.note(api().cuMemRelease(page), "cuMemRelease");
    }

    void map(std::byte* address, std::span<const PageHandle> pages) override {
        if (pages.empty()) return;
        const CudaContext::Current current(context_);
        for (std::size_t i = 0; i < pages.size(); ++i) {
            const CUresult code = api().cuMemMap(device_address(address) + i * properties_.granularity,
                                                 properties_.granularity, 0, pages[i], 0);
            if (code != CUDA_SUCCESS) {
                unmap_pages(address, i);
                context_.fail(code, "cuMemMap", properties_.granularity);
            }
        }
        const std::size_t bytes = pages.size() * properties_.granularity;
        const CUmemAccessDesc access = {.location = page_.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        const CUresult code = api().cuMemSetAccess(device_address(address), bytes, &access, 1);
        if (code != CUDA_SUCCESS) {
            unmap_pages(address, pages.size());
            context_.fail(code, "cuMemSetAccess", bytes);
        }
    }
    void unmap(std::byte* address, std::size_t count) noexcept override {
        if (context_.forked()) return;
        const CudaContext::Current current(context_);
        unmap_pages(address, count);
    }

    std::byte* allocate_pinned(std::size_t bytes) override {
        const CudaContext::Current current(context_);
        void* address = nullptr;
        const std::size_t asked = bytes ? bytes : 1;
        const CUresult code = api().cuMemHostAlloc(&address, asked, CU_MEMHOSTALLOC_PORTABLE);
        if (code == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
        context_.check(code, "cuMemHostAlloc", asked);
        return static_cast<std::byte*>(address);
    }
    void free_pinned(std::byte* address, std::size_t) noexcept override {
        if (context_.forked()) return;
        const CudaContext::Current current(context_);
        context_.note(api().cuMemFreeHost(address), "cuMemFreeHost");
    }

    EventHandle record(StreamId stream) override {
        const CudaContext::Current current(context_);
        return events_.record(stream_of(stream));
    }
    bool passed(EventHandle event) override {
        const CudaContext::Current current(context_);
        return events_.passed(event);
    }
    void wait(StreamId stream, EventHandle event) override {
        const CudaContext::Current current(context_);
        events_.wait(stream_of(stream), event);
    }
    void synchronize(EventHandle event) override {
        const CudaContext::Current current(context_);
        events_.synchronize(event);
    }
    void destroy_event(EventHandle event) noexcept override { events_.put_back(event); }
    bool capturing(StreamId stream) override {
        const CudaContext::Current current(context_);
        return events_.capturing(stream_of(stream));
    }
    StreamId adopt(void* stream) override {
        const std::lock_guard guard(adopting_);
        CUstream* const end = streams_.data() + stream_count_.load();
        CUstream* const known = std::find(streams_.data(), end, static_cast<CUstream>(stream));
        return known != end ? static_cast<StreamId>(known - streams_.data()) : add(static_cast<CUstream>(stream));
    }

  private:
    const CudaApi& api() const { return context_.api(); }
    std::size_t whole(std::size_t bytes) const {
        return (bytes + properties_.granularity - 1) / properties_.granularity * properties_.granularity;
    }

    void read_properties() {
        properties_.name = context_.name();
        properties_.touchable = false;
        properties_.synchronous = false;
        properties_.alignment = kCudaAlignment;
        context_.check(api().cuDeviceTotalMem(&properties_.total_bytes, context_.device()), "cuDeviceTotalMem");
        context_.check(
            api().cuMemGetAllocationGranularity(&properties_.granularity, &page_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
            "cuMemGetAllocationGranularity");
        if (!std::has_single_bit(properties_.granularity) || properties_.granularity < kCudaAlignment) {
            throw DeviceError(fmt::format("{}: its granularity of {} bytes is not a power of two of at least {}",
                                          context_.name(), properties_.granularity, kCudaAlignment));
        }
        properties_.address_bytes = whole(kAddressTimes * properties_.total_bytes);
    }

    CUstream stream_of(StreamId stream) const {
        const std::size_t count = stream_count_.load(std::memory_order_acquire);
        if (stream < count) return streams_[stream];
        throw DeviceError(fmt::format("{}: stream {} does not exist; make_cuda_driver was given {} streams",
                                      context_.name(), stream, count));
    }
    StreamId add(CUstream stream) {
        const std::size_t count = stream_count_.load();
        if (count == streams_.size()) {
            throw DeviceError(fmt::format("{}: more than {} streams; use fewer", context_.name(), streams_.size()));
        }
        streams_[count] = stream;
        stream_count_.store(count + 1, std::memory_order_release);
        return static_cast<StreamId>(count);
    }

    /// cuMemUnmap takes away whole mappings; that it takes several at once is documented nowhere.
    void unmap_pages(std::byte* address, std::size_t count) noexcept {
        for (std::size_t i = 0; i < count; ++i) {
            context_.note(
                api().cuMemUnmap(device_address(address) + i * properties_.granularity, properties_.granularity),
                "cuMemUnmap");
        }
    }

    CudaContext context_;
    CudaEvents events_;
    std::array<CUstream, 64> streams_{};  ///< those in use never change
    std::atomic<std::size_t> stream_count_{0};
    std::mutex adopting_;
    CUmemAllocationProp page_ = {};
    DriverProperties properties_;
};

}  // namespace

std::unique_ptr<Driver> make_cuda_driver(CudaDriverOptions options) {
    return std::make_unique<CudaDriver>(std::move(options));
}

}  // namespace headroom::memory
