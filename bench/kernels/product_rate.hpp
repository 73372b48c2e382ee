#pragma once
// How fast oneDNN multiplies by itself, on its own threads: what `multiplied` in limit.hpp takes as the limit.
//
//     multiplied(state, 2.0 * m * n * k, product_rate(Dtype::f32, 1, m, n, k, false, true));
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>

#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "limit.hpp"

namespace headroom::bench {

/// Operations per second of c = a b, each [batch, rows, columns] without gaps; transposed ones lie so in memory. f32 by
/// `dnnl_sgemm` unless it is a batch. `c` is f32, or of the dtype. That of f32 for a dtype that oneDNN does not
/// multiply on this processor: f16 and bf16 without instructions for them. 0 for f64, which it multiplies on none.
inline double product_rate(kernels::Dtype dtype, std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k,
                           bool a_transposed, bool b_transposed, kernels::Dtype c_dtype) {
    if (dtype == kernels::Dtype::f64) return 0;
    using Type = dnnl::memory::data_type;
    static std::map<
        std::tuple<kernels::Dtype, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool, bool, kernels::Dtype>,
        double>
        known;
    double& rate = known[{dtype, batch, m, n, k, a_transposed, b_transposed, c_dtype}];
    if (rate > 0) return rate;
    omp_set_num_threads(thread_count());
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    Memory a(batch * m * k * size), b(batch * k * n * size),
        c(batch * m * n * static_cast<std::int64_t>(size_of(c_dtype)));
    double seconds = 0;
    if (dtype == kernels::Dtype::f32 && batch == 1) {
        const auto floats = [](Memory& memory) { return reinterpret_cast<float*>(memory.data()); };
        seconds = least_seconds([&] {
            dnnl_sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', m, n, k, 1, floats(a), a_transposed ? m : k,
                       floats(b), b_transposed ? k : n, 0, floats(c), n);
        });
    } else {
        const auto type = [](kernels::Dtype of) {
            return of == kernels::Dtype::bf16 ? Type::bf16 : of == kernels::Dtype::f16 ? Type::f16 : Type::f32;
        };
        const auto described = [&](kernels::Dtype of, std::int64_t rows, std::int64_t columns, bool transposed) {
            return dnnl::memory::desc({batch, rows, columns}, type(of),
                                      transposed ? dnnl::memory::dims{rows * columns, 1, rows}
                                                 : dnnl::memory::dims{rows * columns, columns, 1});
        };
        const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
        dnnl::stream stream(engine);
        const auto a_desc = described(dtype, m, k, a_transposed), b_desc = described(dtype, k, n, b_transposed),
                   c_desc = described(c_dtype, m, n, false);
        dnnl::matmul::primitive_desc chosen;
        try {
            chosen = {dnnl::matmul::desc(a_desc, b_desc, c_desc), engine};
        } catch (const dnnl::error& error) {
            if (error.status != dnnl_unimplemented || dtype == kernels::Dtype::f32) throw;
            return rate = product_rate(kernels::Dtype::f32, batch, m, n, k, a_transposed, b_transposed,
                                       kernels::Dtype::f32);
        }
        const dnnl::matmul product(chosen);
        const std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, {a_desc, engine, a.data()}},
                                                              {DNNL_ARG_WEIGHTS, {b_desc, engine, b.data()}},
                                                              {DNNL_ARG_DST, {c_desc, engine, c.data()}}};
        seconds = least_seconds([&] {
            product.execute(stream, arguments);
            stream.wait();
        });
    }
    return rate = 2.0 * static_cast<double>(batch * m * n * k) / seconds;
}

/// Of a product whose operands stay in caches: what nothing that multiplies exceeds.
inline double product_rate(kernels::Dtype dtype) {
    return product_rate(dtype, 1, 1024, 1024, 1024, false, false, dtype);
}

}  // namespace headroom::bench
