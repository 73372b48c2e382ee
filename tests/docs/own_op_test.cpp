// What docs/guide.md says of halves in the kernels of a user's op.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/rows.hpp>

namespace headroom {
namespace own_op_test {

void softsign_forward(CpuStream& stream, const View& x, const View& y) {
    const kernels::Rows in(x), out(y);
    kernels::dispatch_compute(x.dtype, [&]<class T>(kernels::TypeTag<T>) {  // float, or double for f64
        kernels::parallel_for(stream, in.count(), x.numel(), [&](std::int64_t row) {
            T buffer[kernels::kChunk];
            kernels::for_each_chunk(in.length(), [&](std::int64_t begin, std::int64_t count) {
                const T* from = in.read(row, begin, count, buffer);
                T* to = out.target(row, begin, count, buffer);
                for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] / (T(1) + std::abs(from[i]));
                out.write(to, row, begin, count);
            });
        });
    });
}

/// Any dtype, and rows longer than a piece that are read across memory.
TEST(Guide, KernelsOfHalves) {
    Context context = Context::cpu({.threads = 2});
    constexpr std::int64_t kLength = kernels::kChunk + 7;
    std::vector<double> values(2 * kLength);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 64) / 8 - 4;  // bf16 holds them
    const Tensor source = context.from_host(values, {kLength, 2});
    for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
        const Tensor x = cast(source, dtype).transpose(0, 1);
        const Array y = context.exec().empty(x.shape(), dtype);
        softsign_forward(std::get<CpuStream>(context.stream()), x.array().view(), y.view());
        const std::vector<double> result = context.from_array(y).to_vector<double>(), from = x.to_vector<double>();
        for (std::size_t i = 0; i < result.size(); ++i) {
            const double exact = from[i] / (1 + std::abs(from[i]));
            ASSERT_NEAR(result[i], exact, 2 * kernels::epsilon(dtype)) << kernels::name(dtype) << ", " << i;
        }
    }
}

}  // namespace own_op_test
}  // namespace headroom
