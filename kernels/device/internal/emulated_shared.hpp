#pragma once
// Shared memory in the emulator: every access checks the bounds of its region, and every read checks that the element
// was written. Kernels see only `Shared<T>`; cuda_backend.cuh has the version for GPUs.
//
//     Shared<float> tile = block.shared<float>(32);
//     tile[block.lane()] = x;
//     float y = tile[31 - block.lane()];           // not `auto`: an element is a reference
#include <cstdint>
#include <string>
#include <type_traits>

#include <headroom/kernels/device/internal/emulated_thread.hpp>

namespace headroom::kernels::device {

/// An index with its source location, because operator[] takes no default argument.
struct SharedIndex {
    template <class Integer>
    requires std::is_integral_v<Integer> SharedIndex(Integer i, Site where = Site::current())
        : index(static_cast<std::int64_t>(i)), site(where) {}
    std::int64_t index;
    Site site;
};

/// The result of operator[]. It can be read, written and updated in place, but not stored.
template <class T>
class SharedElement {
  public:
    using Value = std::remove_const_t<T>;
    SharedElement(EmulatedThread& thread, T* address, Site site) : thread_(thread), address_(address), site_(site) {}
    SharedElement(const SharedElement&) = delete;

    operator Value() const&& {
        thread_.shared_access(address_, sizeof(T), EmulatedThread::Access::read, site_);
        return *address_;
    }
    void operator=(Value value) && {
        thread_.shared_access(address_, sizeof(T), EmulatedThread::Access::write, site_);
        *address_ = value;
    }
    void operator=(SharedElement&& other) && { std::move(*this) = static_cast<Value>(std::move(other)); }
    void operator+=(Value value) && { std::move(*this) = static_cast<Value>(read() + value); }
    void operator-=(Value value) && { std::move(*this) = static_cast<Value>(read() - value); }
    void operator*=(Value value) && { std::move(*this) = static_cast<Value>(read() * value); }

  private:
    Value read() const { return static_cast<Value>(SharedElement(thread_, address_, site_)); }

    EmulatedThread& thread_;
    T* address_;
    Site site_;
};

template <class T>
class Shared {
  public:
    Shared(EmulatedThread& thread, T* base, std::int64_t count) : thread_(&thread), base_(base), count_(count) {}

    SharedElement<T> operator[](SharedIndex at) const { return {*thread_, checked(at.index, 1, at.site), at.site}; }
    Shared part(std::int64_t offset, std::int64_t count, Site site = Site::current()) const {
        return {*thread_, checked(offset, count, site), count};
    }

    /// The address of `count` elements from `offset` on; all must lie in the region.
    T* checked(std::int64_t offset, std::int64_t count, Site site) const {
        if (offset < 0 || count < 0 || offset + count > count_)
            thread_->fail("elements " + std::to_string(offset) + " to " + std::to_string(offset + count - 1) +
                              " are outside of shared memory for " + std::to_string(count_) + " elements",
                          site);
        return base_ + offset;
    }

  private:
    EmulatedThread* thread_;
    T* base_;
    std::int64_t count_;
};

}  // namespace headroom::kernels::device
