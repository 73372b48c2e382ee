#include <headroom/kernels/pool/max_pool.hpp>

#include <headroom/kernels/device/images.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

template <class C, int W>
struct LargestOfWindow {
    static constexpr unsigned kMaxThreads = kImageThreads;

    MaxPool pool;
    std::int64_t height, width;  // of x

    HEADROOM_DEVICE void operator()(Block& block, const Images<3>& images) const {
        for (std::int64_t n = block.global_thread(); n < images.numel(); n += block.global_threads()) {
            const auto at = images.at(n);
            const PoolAxis::Span rows = pool.rows.elements(at.h, height), columns = pool.columns.elements(at.w, width);
            Items<C, W> largest;
            int number[W];
#pragma unroll
            for (int k = 0; k < W; ++k) {
                largest[k] = -static_cast<C>(INFINITY);
                number[k] = static_cast<int>(rows.begin * pool.columns.kernel + columns.begin);
            }
            for (std::int64_t r = rows.begin; r < rows.end; ++r) {
                for (std::int64_t s = columns.begin; s < columns.end; ++s) {
                    const Items<C, W> values =
                        images.template load<C, W>(block, 1, at, pool.rows.input(at.h, r), pool.columns.input(at.w, s));
                    const int here = static_cast<int>(r * pool.columns.kernel + s);
#pragma unroll
                    for (int k = 0; k < W; ++k) {
                        const bool takes = values[k] > largest[k] || values[k] != values[k];
                        largest[k] = takes ? values[k] : largest[k];
                        number[k] = takes ? here : number[k];
                    }
                }
            }
            images.template store<C, W>(block, at, 0.0f, largest);
            images.template store_numbers<W>(block, 2, at, number);
        }
    }
};

template <class C, int W>
struct SumOfWindows {
    static constexpr unsigned kMaxThreads = kImageThreads;

    MaxPool pool;
    std::int64_t height, width;  // of dy
    float beta;

    HEADROOM_DEVICE void operator()(Block& block, const Images<3>& images) const {
        for (std::int64_t n = block.global_thread(); n < images.numel(); n += block.global_threads()) {
            const auto at = images.at(n);
            const PoolAxis::Span rows = pool.rows.windows(at.h, height), columns = pool.columns.windows(at.w, width);
            Items<C, W> sum{};
            for (std::int64_t r = rows.begin; r < rows.end; ++r) {
                const std::int64_t row = pool.rows.element(at.h, r);
                for (std::int64_t s = columns.begin; s < columns.end && row >= 0; ++s) {
                    const std::int64_t column = pool.columns.element(at.w, s);
                    if (column < 0) continue;
                    const Items<C, W> values = images.template load<C, W>(block, 1, at, r, s);
                    int number[W];
                    images.template load_numbers<W>(block, 2, at, r, s, number);
                    const int here = static_cast<int>(row * pool.columns.kernel + column);
#pragma unroll
                    for (int k = 0; k < W; ++k) sum[k] += number[k] == here ? values[k] : C(0);
                }
            }
            images.template store<C, W>(block, at, beta, sum);
        }
    }
};

}  // namespace

void max_pool(CudaStream& stream, const View& x, const MaxPool& pool, const View& y, const View& place) {
    if (y.numel() == 0) return;
    const bool wide = x.dtype == Dtype::f64 || y.dtype == Dtype::f64;
    launch_images<LargestOfWindow>(stream, wide ? Dtype::f64 : Dtype::f32, {&y, &x, &place}, pool, x.size(2),
                                   x.size(3));
}

void max_pool_gradient(CudaStream& stream, const View& dy, const View& place, const MaxPool& pool, float beta,
                       const View& dx) {
    if (dx.numel() == 0) return;
    const bool wide = dx.dtype == Dtype::f64 || dy.dtype == Dtype::f64;
    launch_images<SumOfWindows>(stream, wide ? Dtype::f64 : Dtype::f32, {&dx, &dy, &place}, pool, dy.size(2),
                                dy.size(3), beta);
}

}  // namespace headroom::kernels
