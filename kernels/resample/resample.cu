#include <headroom/kernels/resample/resample.hpp>

#include <headroom/kernels/device/images.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

template <class C, int W>
struct Resample {
    static constexpr unsigned kMaxThreads = kImageThreads;

    AxisMap rows, columns;
    float beta;

    HEADROOM_DEVICE void operator()(Block& block, const Images<2>& images) const {
        for (std::int64_t n = block.global_thread(); n < images.numel(); n += block.global_threads()) {
            const auto at = images.at(n);
            const AxisMap::Span over_rows = rows.span<C>(at.h), over_columns = columns.span<C>(at.w);
            Items<C, W> sum{};
            for (std::int64_t r = over_rows.begin; r < over_rows.end; ++r) {
                const C row_weight = rows.weight<C>(at.h, r);
                if (row_weight == 0) continue;
                for (std::int64_t s = over_columns.begin; s < over_columns.end; ++s) {
                    const C weight = row_weight * columns.weight<C>(at.w, s);
                    if (weight == 0) continue;
                    const Items<C, W> values = images.template load<C, W>(block, 1, at, r, s);
#pragma unroll
                    for (int k = 0; k < W; ++k) sum[k] += weight * values[k];
                }
            }
            images.template store<C, W>(block, at, beta, sum);
        }
    }
};

}  // namespace

void resample(CudaStream& stream, const View& x, const AxisMap& rows, const AxisMap& columns, float beta,
              const View& y) {
    if (y.numel() == 0) return;
    const bool wide = x.dtype == Dtype::f64 || y.dtype == Dtype::f64;
    launch_images<Resample>(stream, wide ? Dtype::f64 : Dtype::f32, {&y, &x}, rows, columns, beta);
}

}  // namespace headroom::kernels
