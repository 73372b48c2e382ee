#include <headroom/kernels/matmul/packed.hpp>

#include <algorithm>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/matmul/internal/pack.hpp>
#include <headroom/kernels/matmul/internal/tile.hpp>
#include <headroom/kernels/parallel.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kMostRows = 128;

template <class T>
void pack_panels(CpuStream& stream, const View& b, T* packed) {
    const std::int64_t k = b.size(0), n = b.size(1);
    parallel_for(stream, (n + kPanel<T> - 1) / kPanel<T>, k * n, [&](std::int64_t panel) {
        const std::int64_t first = panel * kPanel<T>, width = std::min(kPanel<T>, n - first);
        pack(b.at(first * b.stride(1)), b.dtype, b.stride(0), b.stride(1), k, width, packed + first * k, width, width);
    });
}

template <class T>
void multiply(CpuStream& stream, const View& a, const T* packed, const View& c, const View& bias, bool accumulate) {
    const std::int64_t m = c.size(0), n = c.size(1), k = a.size(1);
    parallel_for(stream, (n + kPanel<T> - 1) / kPanel<T>, m * n * k / 8, [&](std::int64_t panel) {
        const std::int64_t first = panel * kPanel<T>, width = std::min(kPanel<T>, n - first);
        T* const out = c.as<T>() + first;
        for (std::int64_t i = 0; bias.rank() != 0 && i < m; ++i) {
            const T* values = bias.as<const T>() + first * bias.stride(0);
            T* row = out + i * c.stride(0);
            for (std::int64_t j = 0; j < width; ++j) row[j] = (accumulate ? row[j] : T{0}) + values[j * bias.stride(0)];
        }
        tile_product<T>({m, width, k}, a.as<const T>(), a.stride(0), a.stride(1), packed + first * k, width, out,
                        c.stride(0), accumulate || bias.rank() != 0);
    });
}

}  // namespace

std::size_t packed_bytes(const Stream& stream, const View& b, std::int64_t rows) {
    const std::int64_t lanes = b.dtype == Dtype::f64 ? kLanes<double> : kLanes<float>;
    const bool takes = !on_cuda(stream) && is_floating(b.dtype) && !is_half(b.dtype) && b.size(1) % lanes == 0;
    return takes && rows <= kMostRows ? b.size_bytes() : 0;
}

void pack_matrix(CpuStream& stream, const View& b, std::byte* packed) {
    dispatch_compute(b.dtype, [&]<class T>(TypeTag<T>) { pack_panels(stream, b, reinterpret_cast<T*>(packed)); });
}

void packed_product(CpuStream& stream, const View& a, const std::byte* packed, const View& c, const View& bias,
                    bool accumulate) {
    dispatch_compute(c.dtype, [&]<class T>(TypeTag<T>) {
        multiply(stream, a, reinterpret_cast<const T*>(packed), c, bias, accumulate);
    });
}

}  // namespace headroom::kernels
