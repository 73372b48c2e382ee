// The device's memory is a file; a page is a piece of it, and mapping is mmap of that piece.
#include <headroom/tests/memory/fake_cuda/state.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

using namespace headroom::memory::test::fake_cuda;

namespace {

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

std::size_t capacity(const State& s) { return s.options.total_bytes / s.options.granularity; }

bool reserved(const State& s, CUdeviceptr address, std::size_t bytes) {
    auto range = s.ranges.upper_bound(address);
    if (range == s.ranges.begin()) return false;
    --range;
    return address + bytes <= range->first + range->second;
}

bool mapped_in(const State& s, CUdeviceptr address, std::size_t bytes) {
    const auto found = s.mappings.lower_bound(address);
    return found != s.mappings.end() && found->first < address + bytes;
}

bool is_device(const CUmemLocation& location, const Call& call) {
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE && location.id == call.device();
}

bool is_page_of_device(const CUmemAllocationProp& prop, const Call& call) {
    return prop.type == CU_MEM_ALLOCATION_TYPE_PINNED && is_device(prop.location, call) && !prop.requestedHandleTypes;
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
    Call call("cuMemGetInfo", Needs::context);
    if (call.code()) return call.code();
    const State& s = call.state();
    *free = s.options.total_bytes - s.pages.size() * s.options.granularity;
    *total = s.options.total_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags) {
    Call call("cuMemGetAllocationGranularity", Needs::initialized);
    if (call.code()) return call.code();
    if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return call.misuse("type of the page");
    *bytes = call.state().options.granularity;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
    Call call("cuMemAddressReserve", Needs::context);
    if (call.code()) return call.code();
    State& s = call.state();
    const std::size_t granularity = s.options.granularity;
    if (bytes == 0 || bytes % granularity != 0 || alignment % granularity != 0 || flags != 0) {
        return call.misuse("size, alignment or flags");
    }
    void* const start =
        mmap(nullptr, bytes + granularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto first = reinterpret_cast<CUdeviceptr>(start);
    *address = (first + granularity - 1) / granularity * granularity;
    if (*address > first) munmap(start, *address - first);
    if (const std::size_t behind = first + granularity - *address) munmap(pointer(*address + bytes), behind);
    s.ranges[*address] = bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
    Call call("cuMemAddressFree", Needs::context);
    if (call.code()) return call.code();
    State& s = call.state();
    const auto range = s.ranges.find(address);
    if (range == s.ranges.end() || range->second != bytes) return call.misuse("not reserved like this");
    if (mapped_in(s, address, bytes)) return call.misuse("there are pages behind it");
    munmap(pointer(address), bytes);
    s.ranges.erase(range);
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* page, std::size_t bytes, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
    Call call("cuMemCreate", Needs::context);
    if (call.code()) return call.code();
    State& s = call.state();
    if (bytes != s.options.granularity || !is_page_of_device(*prop, call) || flags != 0) {
        return call.misuse("size, properties or flags");
    }
    if (s.pages.size() == capacity(s)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (s.file < 0) {
        s.file = memfd_create("fake_cuda", MFD_CLOEXEC);
        if (s.file < 0 || ftruncate(s.file, static_cast<off_t>(s.options.total_bytes))) return CUDA_ERROR_UNKNOWN;
    }
    std::size_t place = s.places;
    if (s.free_places.empty()) {
        ++s.places;
    } else {
        place = s.free_places.back();
        s.free_places.pop_back();
    }
    s.pages[++s.last_page] = place;
    *page = s.last_page;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle page) {
    Call call("cuMemRelease", Needs::context);
    if (call.code()) return call.code();
    State& s = call.state();
    const auto found = s.pages.find(page);
    if (found == s.pages.end()) return call.misuse("there is no such page");
    const bool mapped = std::any_of(s.mappings.begin(), s.mappings.end(),
                                    [&](const auto& mapping) { return mapping.second.page == page; });
    if (mapped) return call.misuse("the page is mapped");
    const auto granularity = static_cast<off_t>(s.options.granularity);
    fallocate(s.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(found->second) * granularity,
              granularity);
    s.free_places.push_back(found->second);
    s.pages.erase(found);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle page,
                  unsigned long long flags) {
    Call call("cuMemMap", Needs::context);
    if (call.code()) return call.code();
    State& s = call.state();
    const auto found = s.pages.find(page);
    if (found == s.pages.end()) return call.misuse("there is no such page");
    if (bytes != s.options.granularity || address % bytes != 0 || offset != 0 || flags != 0) {
        return call.misuse("size, address, offset or flags");
    }
    if (!reserved(s, address, bytes)) return call.misuse("the addresses are not reserved");
    if (mapped_in(s, address, bytes))
        return call.misuse("there is a page behind the addresses", CUDA_ERROR_ALREADY_MAPPED);
    const bool elsewhere = std::any_of(s.mappings.begin(), s.mappings.end(),
                                       [&](const auto& mapping) { return mapping.second.page == page; });
    if (elsewhere) return call.misuse("the page is mapped elsewhere");
    void* const mapped = mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, s.file,
                              static_cast<off_t>(found->second * bytes));
    if (mapped == MAP_FAILED) return CUDA_ERROR_MAP_FAILED;
    s.mappings[address] = {page, false};
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
    Call call("cuMemUnmap", Needs::context);
    if (call.code()) return call.code();
    State& s = call.state();
    const auto found = s.mappings.find(address);
    if (found == s.mappings.end() || bytes != s.options.granularity) return call.misuse("not mapped like this");
    if (in_use(s, address, bytes)) return call.misuse("work that uses the page is not done");
    mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    s.mappings.erase(found);
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count) {
    Call call("cuMemSetAccess", Needs::context);
    if (call.code()) return call.code();
    State& s = call.state();
    if (count != 1 || !is_device(access->location, call) || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        return call.misuse("not for this device to read and write");
    }
    for (CUdeviceptr page = address; page < address + bytes; page += s.options.granularity) {
        if (!s.mappings.count(page)) return call.misuse("there are addresses without a page");
    }
    mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE);
    for (CUdeviceptr page = address; page < address + bytes; page += s.options.granularity) {
        s.mappings[page].accessible = true;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** address, std::size_t bytes, unsigned flags) {
    Call call("cuMemHostAlloc", Needs::context);
    if (call.code()) return call.code();
    State& s = call.state();
    if (bytes == 0 || flags != CU_MEMHOSTALLOC_PORTABLE) return call.misuse("size or flags");
    std::size_t held = bytes;
    for (const auto& [pinned, size] : s.pinned) held += size;
    if (held > s.options.pinned_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    s.pinned[*address] = bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* address) {
    Call call("cuMemFreeHost", Needs::context);
    if (call.code()) return call.code();
    if (!call.state().pinned.erase(address)) return call.misuse("not page-locked");
    std::free(address);
    return CUDA_SUCCESS;
}

}  // extern "C"
