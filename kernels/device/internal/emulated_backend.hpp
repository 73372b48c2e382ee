#pragma once
// The implementation of `Block` for compilers other than nvcc: calls of an EmulatedThread, with the checks that a GPU
// skips. Global memory is host memory: kernels get ordinary pointers, so sanitizers see every access. cuda_backend.cuh
// is the version for GPUs; both have the same functions, which block.hpp documents.
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include <headroom/kernels/device/internal/emulated_shared.hpp>
#include <headroom/kernels/device/internal/emulated_thread.hpp>
#include <headroom/kernels/device/values.hpp>

namespace headroom::kernels::device {

enum class Operand { a, b };
enum class Layout { row, column };

/// A lane's eight elements of a 16 x 16 tile: row lane / 2, columns from lane % 2 * 8. A GPU assigns elements
/// differently.
template <Operand Which, class T, Layout Order = Layout::row>
struct Tile {
    using Element = T;
    float at[8];
};
struct Accumulator {
    float at[8];
    template <class Function>
    void transform(Function function) {
        for (float& x : at) x = function(x);
    }
    template <class Function>
    void combine(const Accumulator& other, Function function) {
        for (int i = 0; i < 8; ++i) at[i] = function(at[i], other.at[i]);
    }
};

class Native {
  public:
    explicit Native(EmulatedThread& thread) : thread_(&thread) {}

    unsigned thread() const { return thread_->thread; }
    unsigned threads() const { return thread_->threads; }
    std::uint32_t x() const { return thread_->x; }
    std::uint32_t y() const { return thread_->y; }
    std::uint32_t z() const { return thread_->z; }
    std::uint32_t grid_x() const { return thread_->grid_x; }
    std::uint32_t grid_y() const { return thread_->grid_y; }
    std::uint32_t grid_z() const { return thread_->grid_z; }

    void sync(Site site) { thread_->sync(site); }
    void warp_sync(std::uint32_t mask, Site site) { thread_->warp_sync(mask, site); }
    std::uint32_t ballot(std::uint32_t mask, bool vote, Site site) { return thread_->ballot(mask, vote, site); }
    bool any(std::uint32_t mask, bool vote, Site site) { return ballot(mask, vote, site) != 0; }
    bool all(std::uint32_t mask, bool vote, Site site) { return ballot(mask, vote, site) == mask; }

    template <class T>
    T shuffle_xor(std::uint32_t mask, T value, unsigned lane_mask, Site site) {
        return from(mask, value, lane() ^ lane_mask, site);
    }
    template <class T>
    T shuffle_up(std::uint32_t mask, T value, unsigned delta, Site site) {
        return from(mask, value, lane() < delta ? lane() : lane() - delta, site);
    }
    template <class T>
    T shuffle_down(std::uint32_t mask, T value, unsigned delta, Site site) {
        return from(mask, value, lane() + delta >= kWarp ? lane() : lane() + delta, site);
    }
    template <class T>
    T shuffle(std::uint32_t mask, T value, unsigned source_lane, Site site) {
        return from(mask, value, source_lane, site);
    }

    template <class T>
    Shared<T> shared(std::size_t count, Site site) {
        return {*thread_, static_cast<T*>(thread_->shared(count * sizeof(T), site)), static_cast<std::int64_t>(count)};
    }

    template <int N, class T>
    Vector<T, N> load(const T* p, Site site) {
        check_aligned(p, sizeof(Vector<T, N>), site);
        Vector<T, N> vector;
        for (int i = 0; i < N; ++i) vector[i] = p[i];
        return vector;
    }
    template <int N, class T>
    Vector<T, N> load(Shared<T> region, std::int64_t offset, Site site) {
        const T* p = region.checked(offset, N, site);
        thread_->shared_access(p, sizeof(Vector<T, N>), EmulatedThread::Access::read, site);
        return load<N>(p, site);
    }
    template <class T, int N>
    void store(T* p, const Vector<T, N>& vector, Site site) {
        check_aligned(p, sizeof vector, site);
        for (int i = 0; i < N; ++i) p[i] = vector[i];
    }
    template <class T, int N>
    void store(Shared<T> region, std::int64_t offset, const Vector<T, N>& vector, Site site) {
        T* p = region.checked(offset, N, site);
        thread_->shared_access(p, sizeof vector, EmulatedThread::Access::write, site);
        store(p, vector, site);
    }

    template <class T>
    T atomic_add(T* p, T value, Site site) {
        check_aligned(p, sizeof(T), site);
        thread_->yield();
        T old = load_relaxed(p);
        while (!swap_relaxed(p, old, static_cast<T>(old + value))) {
        }
        return old;
    }
    template <class T>
    T atomic_cas(T* p, T expected, T desired, Site site) {
        check_aligned(p, sizeof(T), site);
        thread_->yield();
        swap_relaxed(p, expected, desired);
        return expected;
    }
    template <class T>
    void publish(T* p, T value, Site site) {
        check_aligned(p, sizeof(T), site);
        __atomic_store(p, &value, __ATOMIC_RELEASE);
        thread_->yield();  // lets others see it before this thread continues
    }
    template <class T>
    T* atomic_target(Shared<T> region, std::int64_t offset, Site site) {
        T* p = region.checked(offset, 1, site);
        thread_->shared_access(p, sizeof(T), EmulatedThread::Access::update, site);
        return p;
    }

    template <Operand Which, class T, Layout Order>
    void load(Tile<Which, T, Order>& tile, const T* p, unsigned stride, Site site) {
        check_tile(p, stride, sizeof(T), site);
        for (int i = 0; i < 8; ++i) tile.at[i] = as_float(p[offset_of(i, stride, Order)]);
    }
    template <Operand Which, class T, Layout Order>
    void load(Tile<Which, T, Order>& tile, Shared<T> region, std::int64_t offset, unsigned stride, Site site) {
        const T* p = region.checked(offset, 15 * std::int64_t{stride} + 16, site);
        check_elements(p, stride, Order, EmulatedThread::Access::read, site);
        load(tile, p, stride, site);
    }
    void load(Accumulator& sum, const float* p, unsigned stride, Site site) {
        check_tile(p, stride, sizeof(float), site);
        for (int i = 0; i < 8; ++i) sum.at[i] = p[offset_of(i, stride, Layout::row)];
    }
    void load(Accumulator& sum, Shared<float> region, std::int64_t offset, unsigned stride, Site site) {
        const float* p = region.checked(offset, 15 * std::int64_t{stride} + 16, site);
        check_elements(p, stride, Layout::row, EmulatedThread::Access::read, site);
        load(sum, p, stride, site);
    }
    void store(float* p, const Accumulator& sum, unsigned stride, Site site) {
        check_tile(p, stride, sizeof(float), site);
        for (int i = 0; i < 8; ++i) p[offset_of(i, stride, Layout::row)] = sum.at[i];
    }
    void store(Shared<float> region, std::int64_t offset, const Accumulator& sum, unsigned stride, Site site) {
        float* p = region.checked(offset, 15 * std::int64_t{stride} + 16, site);
        check_elements(p, stride, Layout::row, EmulatedThread::Access::write, site);
        store(p, sum, stride, site);
    }
    void fill(Accumulator& sum, float value) {
        for (float& x : sum.at) x = value;
    }
    template <class T, Layout OrderA, Layout OrderB>
    void multiply_add(Accumulator& sum, const Tile<Operand::a, T, OrderA>& a, const Tile<Operand::b, T, OrderB>& b,
                      Site site) {
        thread_->multiply_add(a.at, b.at, sum.at, site);
    }

  private:
    unsigned lane() const { return thread_->thread % kWarp; }

    template <class T>
    T from(std::uint32_t mask, T value, unsigned source_lane, Site site) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, &value, sizeof value);
        bits = thread_->shuffle(mask, bits, source_lane, site);
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }

    void check_aligned(const void* p, std::size_t bytes, Site site) {
        if (std::bit_cast<std::uintptr_t>(p) % bytes != 0) [[unlikely]]
            fail_misaligned(p, bytes, site);
    }
    /// Out of line, so that the check is inlined where the compiler knows `bytes`: kernels run it at each access.
    [[gnu::noinline, gnu::cold]] void fail_misaligned(const void* p, std::size_t bytes, Site site) {
        thread_->fail("an access of " + std::to_string(bytes) + " bytes is misaligned by " +
                          std::to_string(std::bit_cast<std::uintptr_t>(p) % bytes),
                      site);
    }
    void check_tile(const void* p, unsigned stride, std::size_t size, Site site) {
        check_aligned(p, 32, site);
        if (stride * size % 16 != 0) thread_->fail("a tile's stride must be a multiple of 16 bytes", site);
        thread_->agree(std::bit_cast<std::uintptr_t>(p), stride, site);
    }
    std::int64_t offset_of(int i, unsigned stride, Layout order) const {
        const unsigned row = lane() / 2, column = lane() % 2 * 8 + static_cast<unsigned>(i);
        return order == Layout::row ? std::int64_t{row} * stride + column : std::int64_t{column} * stride + row;
    }
    template <class T>
    void check_elements(const T* p, unsigned stride, Layout order, EmulatedThread::Access access, Site site) {
        for (int i = 0; i < 8; ++i) thread_->shared_access(p + offset_of(i, stride, order), sizeof(T), access, site);
    }

    // Relaxed, like CUDA's atomics: they order only themselves.
    template <class T>
    static T load_relaxed(T* p) {
        T value;
        __atomic_load(p, &value, __ATOMIC_RELAXED);
        return value;
    }
    template <class T>
    static bool swap_relaxed(T* p, T& expected, T desired) {
        return __atomic_compare_exchange(p, &expected, &desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }

    EmulatedThread* thread_;
};

}  // namespace headroom::kernels::device
