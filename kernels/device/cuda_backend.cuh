#pragma once
// The implementation of `Block` for nvcc, one intrinsic each. Only block.hpp includes it, and documents the functions;
// emulated_backend.hpp is its checking counterpart. Needs compute capability 7.5, or 8.0 for tiles of bf16.
#include <mma.h>

#include <cstdint>
#include <type_traits>

#include <headroom/kernels/device/shape.hpp>
#include <headroom/kernels/device/values.hpp>

namespace headroom::kernels::device {

enum class Operand { a, b };
enum class Layout { row, column };

namespace wmma = nvcuda::wmma;
template <class T>
using WmmaType = std::conditional_t<std::is_same_v<T, f16>, __half, __nv_bfloat16>;
template <Layout Order>
using WmmaLayout = std::conditional_t<Order == Layout::row, wmma::row_major, wmma::col_major>;
template <Operand Which>
using WmmaUse = std::conditional_t<Which == Operand::a, wmma::matrix_a, wmma::matrix_b>;

template <Operand Which, class T, Layout Order = Layout::row>
struct Tile {
    using Element = T;
    wmma::fragment<WmmaUse<Which>, 16, 16, 16, WmmaType<T>, WmmaLayout<Order>> fragment;
};
struct Accumulator {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fragment;
    template <class Function>
    HEADROOM_DEVICE void transform(Function function) {
#pragma unroll
        for (int i = 0; i < fragment.num_elements; ++i) fragment.x[i] = function(fragment.x[i]);
    }
    template <class Function>
    HEADROOM_DEVICE void combine(const Accumulator& other, Function function) {
#pragma unroll
        for (int i = 0; i < fragment.num_elements; ++i) fragment.x[i] = function(fragment.x[i], other.fragment.x[i]);
    }
};

template <class T>
class Shared {
  public:
    HEADROOM_DEVICE explicit Shared(T* base) : base_(base) {}
    template <class Integer>
    HEADROOM_DEVICE T& operator[](Integer i) const {
        return base_[i];
    }
    HEADROOM_DEVICE Shared part(std::int64_t offset, std::int64_t) const { return Shared(base_ + offset); }
    HEADROOM_DEVICE T* base() const { return base_; }

  private:
    T* base_;
};

extern __shared__ __align__(128) unsigned char arena[];

class Native {
  public:
    HEADROOM_DEVICE unsigned thread() const { return threadIdx.x; }
    HEADROOM_DEVICE unsigned threads() const { return blockDim.x; }
    HEADROOM_DEVICE std::uint32_t x() const { return blockIdx.x; }
    HEADROOM_DEVICE std::uint32_t y() const { return blockIdx.y; }
    HEADROOM_DEVICE std::uint32_t z() const { return blockIdx.z; }
    HEADROOM_DEVICE std::uint32_t grid_x() const { return gridDim.x; }
    HEADROOM_DEVICE std::uint32_t grid_y() const { return gridDim.y; }
    HEADROOM_DEVICE std::uint32_t grid_z() const { return gridDim.z; }

    HEADROOM_DEVICE void sync(Site) { __syncthreads(); }
    HEADROOM_DEVICE void warp_sync(std::uint32_t mask, Site) { __syncwarp(mask); }
    HEADROOM_DEVICE std::uint32_t ballot(std::uint32_t mask, bool vote, Site) { return __ballot_sync(mask, vote); }
    HEADROOM_DEVICE bool any(std::uint32_t mask, bool vote, Site) { return __any_sync(mask, vote) != 0; }
    HEADROOM_DEVICE bool all(std::uint32_t mask, bool vote, Site) { return __all_sync(mask, vote) != 0; }

    template <class T>
    HEADROOM_DEVICE T shuffle_xor(std::uint32_t mask, T value, unsigned lane_mask, Site) {
        return __shfl_xor_sync(mask, value, static_cast<int>(lane_mask));
    }
    template <class T>
    HEADROOM_DEVICE T shuffle_up(std::uint32_t mask, T value, unsigned delta, Site) {
        return __shfl_up_sync(mask, value, delta);
    }
    template <class T>
    HEADROOM_DEVICE T shuffle_down(std::uint32_t mask, T value, unsigned delta, Site) {
        return __shfl_down_sync(mask, value, delta);
    }
    template <class T>
    HEADROOM_DEVICE T shuffle(std::uint32_t mask, T value, unsigned source_lane, Site) {
        return __shfl_sync(mask, value, static_cast<int>(source_lane));
    }

    template <class T>
    HEADROOM_DEVICE Shared<T> shared(std::size_t count, Site) {
        T* base = reinterpret_cast<T*>(arena + used_);
        used_ += static_cast<unsigned>((count * sizeof(T) + kSharedAlign - 1) / kSharedAlign * kSharedAlign);
        return Shared<T>(base);
    }

    template <int N, class T>
    HEADROOM_DEVICE Vector<T, N> load(const T* p, Site) {
        return *reinterpret_cast<const Vector<T, N>*>(p);
    }
    template <int N, class T>
    HEADROOM_DEVICE Vector<T, N> load(Shared<T> region, std::int64_t offset, Site site) {
        return load<N>(static_cast<const T*>(region.base() + offset), site);
    }
    template <class T, int N>
    HEADROOM_DEVICE void store(T* p, const Vector<T, N>& vector, Site) {
        *reinterpret_cast<Vector<T, N>*>(p) = vector;
    }
    template <class T, int N>
    HEADROOM_DEVICE void store(Shared<T> region, std::int64_t offset, const Vector<T, N>& vector, Site site) {
        store(region.base() + offset, vector, site);
    }

    template <class T>
    HEADROOM_DEVICE T atomic_add(T* p, T value, Site) {
        return atomicAdd(p, value);
    }
    template <class T>
    HEADROOM_DEVICE T atomic_cas(T* p, T expected, T desired, Site) {
        return atomicCAS(p, expected, desired);
    }
    template <class T>
    HEADROOM_DEVICE void publish(T* p, T value, Site) {
        __threadfence_system();
        atomicExch_system(p, value);
    }
    template <class T>
    HEADROOM_DEVICE T* atomic_target(Shared<T> region, std::int64_t offset, Site) {
        return region.base() + offset;
    }

    template <Operand Which, class T, Layout Order>
    HEADROOM_DEVICE void load(Tile<Which, T, Order>& tile, const T* p, unsigned stride, Site) {
        wmma::load_matrix_sync(tile.fragment, reinterpret_cast<const WmmaType<T>*>(p), stride);
    }
    template <Operand Which, class T, Layout Order>
    HEADROOM_DEVICE void load(Tile<Which, T, Order>& tile, Shared<T> region, std::int64_t offset, unsigned stride,
                              Site site) {
        const T* p = region.base() + offset;
        if constexpr (std::is_same_v<T, bf16>) {
            load_bf16<Which, Order>(reinterpret_cast<unsigned*>(tile.fragment.x), p, stride);
        } else {
            load(tile, p, stride, site);
        }
    }
    HEADROOM_DEVICE void load(Accumulator& sum, const float* p, unsigned stride, Site) {
        wmma::load_matrix_sync(sum.fragment, p, stride, wmma::mem_row_major);
    }
    HEADROOM_DEVICE void load(Accumulator& sum, Shared<float> region, std::int64_t offset, unsigned stride, Site site) {
        load(sum, static_cast<const float*>(region.base() + offset), stride, site);
    }
    HEADROOM_DEVICE void store(float* p, const Accumulator& sum, unsigned stride, Site) {
        wmma::store_matrix_sync(p, sum.fragment, stride, wmma::mem_row_major);
    }
    HEADROOM_DEVICE void store(Shared<float> region, std::int64_t offset, const Accumulator& sum, unsigned stride,
                               Site site) {
        store(region.base() + offset, sum, stride, site);
    }
    HEADROOM_DEVICE void fill(Accumulator& sum, float value) { wmma::fill_fragment(sum.fragment, value); }
    template <class T, Layout OrderA, Layout OrderB>
    HEADROOM_DEVICE void multiply_add(Accumulator& sum, const Tile<Operand::a, T, OrderA>& a,
                                      const Tile<Operand::b, T, OrderB>& b, Site) {
        wmma::mma_sync(sum.fragment, a.fragment, b.fragment, sum.fragment);
    }

  private:
    // The loads of load_matrix_sync, with an explicit state space. nvcc 13.0 detects only for f16 that these addresses
    // are in shared memory; bf16 it loads with four generic loads (and moves, to transpose) instead of one LDSM.
    template <Operand Which, Layout Order>
    HEADROOM_DEVICE static void load_bf16(unsigned* to, const bf16* p, unsigned stride) {
        const auto address = static_cast<unsigned>(__cvta_generic_to_shared(p));
        if constexpr (Which == Operand::a && Order == Layout::row) {
            asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                         : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                         : "r"(address), "r"(stride)
                         : "memory");
        } else if constexpr (Which == Operand::a) {
            asm volatile("wmma.load.a.sync.aligned.col.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                         : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                         : "r"(address), "r"(stride)
                         : "memory");
        } else if constexpr (Order == Layout::row) {
            asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                         : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                         : "r"(address), "r"(stride)
                         : "memory");
        } else {
            asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                         : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                         : "r"(address), "r"(stride)
                         : "memory");
        }
    }

    unsigned used_ = 0;  // bytes used of the arena; a constant after inlining if the counts are
};

}  // namespace headroom::kernels::device
