#include <headroom/kernels/attention/internal/heads.cuh>
#include <headroom/kernels/attention/internal/paths.hpp>

namespace headroom::kernels {

namespace {

using namespace attention_device;

// The sum of dy * o for each query of each head, before all else: eight lanes for each row.
template <class T>
struct Delta {
    using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;
    static constexpr unsigned kMaxThreads = 128;
    static constexpr int kLanes = 8, kRows = 128 / kLanes;

    Geometry g;
    HeadView o, dy;
    Number* delta;  // [B, H, T]

    HEADROOM_DEVICE void operator()(Block& block) const {
        const HeadBlock at = block_of_head(block, g.queries, kRows, g.heads);
        const std::int64_t query = at.first + block.thread() / kLanes;
        const std::int64_t row = o.row(at.batch, query, at.head), dy_row = dy.row(at.batch, query, at.head);
        const int width = query < g.queries ? static_cast<int>(g.width) : 0;
        Number sum = 0;
        for (int column = block.thread() % kLanes * kWide<T>; column < width; column += kLanes * kWide<T>) {
            const Vector<T, kWide<T>> x = load_vector<T>(block, o, row, column, width);
            const Vector<T, kWide<T>> y = load_vector<T>(block, dy, dy_row, column, width);
#pragma unroll
            for (int i = 0; i < kWide<T>; ++i) sum += from_element<Number>(x[i]) * from_element<Number>(y[i]);
        }
#pragma unroll
        for (unsigned step = 1; step < kLanes; step *= 2) sum += block.shuffle_xor(kFullWarp, sum, step);
        if (width > 0 && block.thread() % kLanes == 0) delta[(at.batch * g.heads + at.head) * g.queries + query] = sum;
    }
};

}  // namespace

void AttentionGradientPlan::run(CudaStream& stream, std::byte* scratch) const {
    const AttentionGradient& gradient = gradient_;
    const Geometry g = geometry_of(gradient.q, gradient.k, gradient.causal);
    if (g.batch * g.heads * g.width == 0) return;
    if (library_ && attention_gradient_by_library(stream, *library_, gradient, scratch)) return;
    const Dtype dtype = gradient.q.dtype;
    dispatch(dtype, [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, f16> ||
                      std::is_same_v<T, bf16>) {
            using Kernel = Delta<T>;
            launch(stream,
                   {.x = head_blocks(g.queries, Kernel::kRows, g.batch * g.heads), .threads = Kernel::kMaxThreads},
                   Kernel{g, HeadView(gradient.o), HeadView(gradient.dy),
                          reinterpret_cast<typename Kernel::Number*>(scratch)});
        }
    });
    if (fits_tensor_cores(g, dtype)) {
        attention_gradient_on_tensor_cores(stream, gradient, reinterpret_cast<float*>(scratch));
    } else {
        attention_gradient_plain(stream, gradient, scratch);
    }
}

}  // namespace headroom::kernels
