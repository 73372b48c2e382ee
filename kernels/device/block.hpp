#pragma once
// `Block` is the interface of CUDA kernels, and this is the only header they include. A kernel is a functor. nvcc
// compiles it to the intrinsics that one would write by hand; any other C++ compiler turns it into calls of an
// emulator, which runs and checks it and lets ThreadSanitizer find its races. Not supported: features beyond compute
// capability 7.5 (such as Hopper's tensor cores; the exception is bf16 on tensor cores, which needs 8.0), cooperative
// groups, and waiting for other blocks. docs/kernel_tests.md explains how to test.
//
//     struct Scale {
//         HEADROOM_DEVICE void operator()(Block& block, float* x, float factor, std::int64_t n) const {
//             for (std::int64_t i = block.global_thread(); i < n; i += block.global_threads()) x[i] *= factor;
//         }
//     };
//     launch(stream, {.x = blocks_for(n, 256), .threads = 256}, Scale{}, x, 2.0f, n);     // device/launch.hpp
//
// Rules, which the emulator enforces but some GPUs do not:
// - A collective is called by all its participants, from the same place in the source: `sync` by all threads of the
//   block, a warp's collectives by all lanes of the mask. None of them may have returned from the kernel. A helper that
//   calls a collective takes a `Site site = Site::current()` and passes it on, so that reports name its caller.
// - Shuffles and votes order no memory; `sync` and `warp_sync` do, among their callers. Atomics are relaxed.
// - Global memory is accessed through pointers; shared memory through `Shared<T>`, by index.
// - Arithmetic is in f32: `as_float(x)` and `rounded<T>(y)` convert float, f16 and bf16. Use <cmath> for mathematics.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <headroom/kernels/device/shape.hpp>
#include <headroom/kernels/device/site.hpp>
#include <headroom/kernels/device/values.hpp>
#if defined(__CUDACC__)
#include <headroom/kernels/device/cuda_backend.cuh>
#else
#include <headroom/kernels/device/internal/emulated_backend.hpp>
#endif

namespace headroom::kernels::device {

inline constexpr std::uint32_t kFullWarp = 0xffffffffu;
/// The compute capability that tensor-core products of T need: a kernel's `kCapability` (launch.hpp).
template <class T>
inline constexpr int kTensorCapability = std::is_same_v<T, bf16> ? kBf16Capability : kLeastCapability;

struct Sum {
    template <class T>
    HEADROOM_DEVICE T operator()(T a, T b) const {
        return a + b;
    }
};
/// The larger value; NaN if either is NaN.
struct Max {
    template <class T>
    HEADROOM_DEVICE T operator()(T a, T b) const {
        return a > b || a != a ? a : b;
    }
};

class Block {
  public:
#if defined(__CUDACC__)
    HEADROOM_DEVICE Block() {}
#else
    explicit Block(EmulatedThread& thread) : native_(thread) {}
#endif
    Block(const Block&) = delete;  // it holds the end of the arena: pass it by reference

    // --- The thread's position. Special registers, free.

    HEADROOM_DEVICE unsigned thread() const { return native_.thread(); }
    HEADROOM_DEVICE unsigned threads() const { return native_.threads(); }
    HEADROOM_DEVICE unsigned lane() const { return native_.thread() % kWarp; }
    HEADROOM_DEVICE unsigned warp() const { return native_.thread() / kWarp; }
    HEADROOM_DEVICE unsigned warps() const { return native_.threads() / kWarp; }
    /// The block's position in the grid, and the grid's sizes.
    HEADROOM_DEVICE std::uint32_t x() const { return native_.x(); }
    HEADROOM_DEVICE std::uint32_t y() const { return native_.y(); }
    HEADROOM_DEVICE std::uint32_t z() const { return native_.z(); }
    HEADROOM_DEVICE std::uint32_t grid_x() const { return native_.grid_x(); }
    HEADROOM_DEVICE std::uint32_t grid_y() const { return native_.grid_y(); }
    HEADROOM_DEVICE std::uint32_t grid_z() const { return native_.grid_z(); }
    /// The thread's number among all threads along x, and their count: start and step of a loop over a large array.
    HEADROOM_DEVICE std::int64_t global_thread() const { return std::int64_t{x()} * threads() + thread(); }
    HEADROOM_DEVICE std::int64_t global_threads() const { return std::int64_t{grid_x()} * threads(); }

    // --- Waiting.

    /// Waits for all threads of the block and makes their writes visible to each other. About 20 to 50 cycles.
    HEADROOM_DEVICE void sync(Site site = Site::current()) { native_.sync(site); }
    /// The same for the lanes of `mask`, which must include the caller. A few cycles.
    HEADROOM_DEVICE void warp_sync(std::uint32_t mask = kFullWarp, Site site = Site::current()) {
        native_.warp_sync(mask, site);
    }

    // --- Votes. One instruction; all lanes of `mask` get the result.

    /// Bit i: lane i is in the mask and voted yes.
    HEADROOM_DEVICE std::uint32_t ballot(std::uint32_t mask, bool vote, Site site = Site::current()) {
        return native_.ballot(mask, vote, site);
    }
    HEADROOM_DEVICE bool any(std::uint32_t mask, bool vote, Site site = Site::current()) {
        return native_.any(mask, vote, site);
    }
    HEADROOM_DEVICE bool all(std::uint32_t mask, bool vote, Site site = Site::current()) {
        return native_.all(mask, vote, site);
    }

    // --- Shuffles: read another lane's value. T is an arithmetic type of 4 bytes (one instruction) or 8 (two). The
    // source lane must be in the mask.

    /// The value of lane `lane() ^ lane_mask`; lane_mask < 32.
    template <class T>
    HEADROOM_DEVICE T shuffle_xor(std::uint32_t mask, T value, unsigned lane_mask, Site site = Site::current()) {
        return native_.shuffle_xor(mask, shuffled(value), lane_mask, site);
    }
    /// The value of lane `lane() - delta`; the caller's own if there is none.
    template <class T>
    HEADROOM_DEVICE T shuffle_up(std::uint32_t mask, T value, unsigned delta, Site site = Site::current()) {
        return native_.shuffle_up(mask, shuffled(value), delta, site);
    }
    /// The value of lane `lane() + delta`; the caller's own if there is none.
    template <class T>
    HEADROOM_DEVICE T shuffle_down(std::uint32_t mask, T value, unsigned delta, Site site = Site::current()) {
        return native_.shuffle_down(mask, shuffled(value), delta, site);
    }
    /// The value of lane `source_lane` < 32, which may differ between lanes.
    template <class T>
    HEADROOM_DEVICE T shuffle(std::uint32_t mask, T value, unsigned source_lane, Site site = Site::current()) {
        return native_.shuffle(mask, shuffled(value), source_lane, site);
    }

    // --- Reductions, in an order that depends only on threads(): neighbours first, then pairs of them, and so on. All
    // callers get the same bits.

    /// Over the 32 lanes of a warp, all of which must call it. Five shuffles.
    template <class T, class Op>
    HEADROOM_DEVICE T warp_reduce(T value, Op op, Site site = Site::current()) {
#if defined(__CUDACC__)
#pragma unroll
#endif
        for (unsigned step = 1; step < kWarp; step *= 2) value = op(value, shuffle_xor(kFullWarp, value, step, site));
        return value;
    }
    /// Over the block; all its threads must call it. Ten shuffles and two `sync`. `scratch` holds at least warps()
    /// elements and can be reused immediately. `identity` is op's neutral element: 0 for Sum, -infinity for Max.
    template <class T, class Op>
    HEADROOM_DEVICE T reduce(std::type_identity_t<T> value, Op op, std::type_identity_t<T> identity, Shared<T> scratch,
                             Site site = Site::current()) {
        value = warp_reduce(value, op, site);
        if (lane() == 0) scratch[warp()] = value;
        sync(site);
        value = identity;
        if (lane() < warps()) value = scratch[lane()];
        value = warp_reduce(value, op, site);
        sync(site);
        return value;
    }
    template <class T>
    HEADROOM_DEVICE T sum(std::type_identity_t<T> value, Shared<T> scratch, Site site = Site::current()) {
        return reduce<T>(value, Sum{}, T{}, scratch, site);
    }
    HEADROOM_DEVICE float max(float value, Shared<float> scratch, Site site = Site::current()) {
        return reduce(value, Max{}, -INFINITY, scratch, site);
    }

    // --- Shared memory.

    /// The next `count` elements of the block's arena; the launch gives the arena's size, `shared_size<T>(count)` per
    /// call. All threads must request the same regions in the same order. Uninitialised, aligned to 32 bytes. Free.
    template <class T>
    HEADROOM_DEVICE Shared<T> shared(std::size_t count, Site site = Site::current()) {
        return native_.template shared<T>(count, site);
    }

    // --- Vectors: N elements in one instruction. The address must be a multiple of their size; the caller handles
    // unaligned elements. The emulator reports a misaligned address; a GPU kills the kernel.

    template <int N, class T>
    HEADROOM_DEVICE Vector<T, N> load(const T* p, Site site = Site::current()) {
        return native_.template load<N>(p, site);
    }
    template <int N, class T>
    HEADROOM_DEVICE Vector<T, N> load(Shared<T> region, std::int64_t offset, Site site = Site::current()) {
        return native_.template load<N>(region, offset, site);
    }
    template <class T, int N>
    HEADROOM_DEVICE void store(T* p, const Vector<T, N>& vector, Site site = Site::current()) {
        native_.store(p, vector, site);
    }
    template <class T, int N>
    HEADROOM_DEVICE void store(Shared<T> region, std::int64_t offset, const Vector<T, N>& vector,
                               Site site = Site::current()) {
        native_.store(region, offset, vector, site);
    }

    /// Loads N elements of float, f16 or bf16 as f32, in 16-byte accesses (one smaller access if they take less). Same
    /// alignment.
    template <int N, class T>
    HEADROOM_DEVICE Floats<N> load_floats(const T* p, Site site = Site::current()) {
        constexpr int wide = N < kWide<T> ? N : kWide<T>;
        static_assert(N % wide == 0, "N must fill whole 16-byte accesses");
        Floats<N> values;
#if defined(__CUDACC__)
#pragma unroll
#endif
        for (int i = 0; i < N; i += wide) {
            const Vector<T, wide> vector = load<wide>(p + i, site);
#if defined(__CUDACC__)
#pragma unroll
#endif
            for (int k = 0; k < wide; ++k) values[i + k] = as_float(vector[k]);
        }
        return values;
    }
    /// Stores them; each element is rounded once.
    template <class T, int N>
    HEADROOM_DEVICE void store_floats(T* p, const Floats<N>& values, Site site = Site::current()) {
        constexpr int wide = N < kWide<T> ? N : kWide<T>;
        static_assert(N % wide == 0, "N must fill whole 16-byte accesses");
#if defined(__CUDACC__)
#pragma unroll
#endif
        for (int i = 0; i < N; i += wide) {
            Vector<T, wide> vector;
#if defined(__CUDACC__)
#pragma unroll
#endif
            for (int k = 0; k < wide; ++k) vector[k] = rounded<T>(values[i + k]);
            store(p + i, vector, site);
        }
    }

    // --- Atomics, relaxed; they return the old value. Floating-point sums are added in any order, so not for results
    // that must repeat bit for bit.

    /// float, int, unsigned, unsigned long long.
    template <class T>
    HEADROOM_DEVICE T atomic_add(T* p, std::type_identity_t<T> value, Site site = Site::current()) {
        return native_.atomic_add(p, value, site);
    }
    template <class T>
    HEADROOM_DEVICE T atomic_add(Shared<T> region, std::int64_t offset, std::type_identity_t<T> value,
                                 Site site = Site::current()) {
        return native_.atomic_add(native_.atomic_target(region, offset, site), value, site);
    }
    /// Writes `desired` if the old value is `expected`. int, unsigned, unsigned long long.
    template <class T>
    HEADROOM_DEVICE T atomic_cas(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> desired,
                                 Site site = Site::current()) {
        return native_.atomic_cas(p, expected, desired, site);
    }
    template <class T>
    HEADROOM_DEVICE T atomic_cas(Shared<T> region, std::int64_t offset, std::type_identity_t<T> expected,
                                 std::type_identity_t<T> desired, Site site = Site::current()) {
        return native_.atomic_cas(native_.atomic_target(region, offset, site), expected, desired, site);
    }
    /// Writes `value` visibly to the host, too: whoever reads it also sees all earlier writes of this thread. unsigned.
    template <class T>
    HEADROOM_DEVICE void publish(T* p, std::type_identity_t<T> value, Site site = Site::current()) {
        native_.publish(p, value, site);
    }

    // --- Tensor cores: a warp multiplies 16 x 16 tiles of f16 or bf16 and accumulates in f32, through nvcuda::wmma. A
    // kernel for bf16 declares `static constexpr int kCapability = kTensorCapability<bf16>`. All 32 lanes call with the
    // same arguments. A tile's address is a multiple of 32 bytes, its stride (elements from one row, or column, to the
    // next) a multiple of 16 bytes. The assignment of elements to lanes depends on the device, so only functions that
    // treat all elements alike can compute on fragments: `Accumulator::transform`, and `combine` with another
    // accumulator, which has the same assignment. The order of the 16 terms depends on the device, too.
    //
    //     Tile<Operand::a, f16> a;  Tile<Operand::b, f16, Layout::column> b;  Accumulator sum;
    //     block.fill(sum, 0.0f);
    //     block.load_tile(a, x, k);  block.load_tile(b, w, k);  block.multiply_add(sum, a, b);
    //     block.store_tile(y, sum, n);

    template <class Fragment, class T>
    HEADROOM_DEVICE void load_tile(Fragment& tile, const T* p, unsigned stride, Site site = Site::current()) {
        native_.load(tile, p, stride, site);
    }
    template <class Fragment, class T>
    HEADROOM_DEVICE void load_tile(Fragment& tile, Shared<T> region, std::int64_t offset, unsigned stride,
                                   Site site = Site::current()) {
        native_.load(tile, region, offset, stride, site);
    }
    HEADROOM_DEVICE void fill(Accumulator& sum, float value) { native_.fill(sum, value); }
    /// sum += a b
    template <class T, Layout OrderA, Layout OrderB>
    HEADROOM_DEVICE void multiply_add(Accumulator& sum, const Tile<Operand::a, T, OrderA>& a,
                                      const Tile<Operand::b, T, OrderB>& b, Site site = Site::current()) {
        native_.multiply_add(sum, a, b, site);
    }
    /// Row-major.
    HEADROOM_DEVICE void store_tile(float* p, const Accumulator& sum, unsigned stride, Site site = Site::current()) {
        native_.store(p, sum, stride, site);
    }
    HEADROOM_DEVICE void store_tile(Shared<float> region, std::int64_t offset, const Accumulator& sum, unsigned stride,
                                    Site site = Site::current()) {
        native_.store(region, offset, sum, stride, site);
    }

  private:
    template <class T>
    HEADROOM_DEVICE static T shuffled(T value) {
        static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "shuffles take 4 or 8 bytes");
        return value;
    }

    Native native_;
};

}  // namespace headroom::kernels::device
