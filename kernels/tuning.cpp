#include <headroom/kernels/tuning.hpp>

#include <variant>

#include <headroom/kernels/attention/internal/sdpa_choices.hpp>
#include <headroom/kernels/convolution/internal/cudnn_convolution.hpp>
#include <headroom/kernels/matmul/internal/gemm.hpp>

namespace headroom::kernels {

namespace {

/// What cuDNN's plans were chosen for: each adds its lines behind those of products.
template <class F>
void for_each_table(CudaStream& stream, const F& use) {
    use(stream.state->get<SdpaChoices>());
    use(stream.state->get<ConvolutionChoices>());
}

}  // namespace

void save_tuning(Stream& stream, const std::string& path) {
    auto* const cuda = std::get_if<CudaStream>(&stream);
    if (!cuda) return;
    save_matmul_choices(*cuda, path);
    for_each_table(*cuda, [&](const PlanTable& table) { table.append(path); });
}

void load_tuning(Stream& stream, const std::string& path) {
    auto* const cuda = std::get_if<CudaStream>(&stream);
    if (!cuda) return;
    load_matmul_choices(*cuda, path);
    for_each_table(*cuda, [&](PlanTable& table) { table.load(path); });
}

}  // namespace headroom::kernels
