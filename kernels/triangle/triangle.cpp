#include <headroom/kernels/triangle/triangle.hpp>

#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/rows.hpp>

namespace headroom::kernels {

void triangle(CpuStream& stream, const View& x, const Triangle& part, float beta, const View& y) {
    if (y.numel() == 0) return;
    const Rows in(x), out(y);
    const std::int64_t height = x.shape[x.rank() - 2];
    const auto run = [&]<class T>(TypeTag<T>) {
        parallel_for(stream, in.count(), x.numel(), [&](std::int64_t row) {
            for_each_chunk(in.length(), [&](std::int64_t begin, std::int64_t count) {
                T values[kChunk];
                load(in.at(row, begin), x.dtype, in.stride(), count, values);
                for (std::int64_t j = 0; j < count; ++j) {
                    if (!part.has(row % height, begin + j)) values[j] = 0;
                }
                if (beta == 0) return store(values, count, out.at(row, begin), y.dtype, out.stride());
                accumulate(values, count, beta, out.at(row, begin), y.dtype, out.stride());
            });
        });
    };
    if (!is_floating(x.dtype)) return run(TypeTag<std::int64_t>{});
    x.dtype == Dtype::f64 || y.dtype == Dtype::f64 ? run(TypeTag<double>{}) : run(TypeTag<float>{});
}

}  // namespace headroom::kernels
