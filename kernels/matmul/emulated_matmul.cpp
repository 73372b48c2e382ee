// Matmul in builds with HEADROOM_CUDA=EMULATED: what cuBLASLt would compute, the CPU kernels do, everything else is
// done by the kernels that a GPU would run.
#include <vector>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/emulated_thread.hpp>
#include <headroom/kernels/matmul/choices.hpp>
#include <headroom/kernels/matmul/gemm.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/matmul/parts.hpp>
#include <headroom/kernels/matmul/tiled.hpp>

namespace headroom::kernels {

namespace {

constexpr std::size_t kNoVersion = 0;

/// As cuBLASLt would: without what its epilogues lack.
void library_matmul(CudaStream& stream, const Gemm& gemm, Matmul matmul) {
    if (!gemm.bias) matmul.bias = {};
    matmul.activation = gemm.activation;
    const CpuStream host{.threads = stream.threads, .state = stream.state};
    static_cast<device::EmulatedDevice*>(stream.device->native())->call([=] {
        CpuStream cpu = host;
        Stream any = cpu;
        const std::size_t bytes = matmul_scratch(any, matmul);
        std::vector<std::byte> memory(bytes + 64);
        const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
        kernels::matmul(cpu, matmul, memory.data() + (64 - address % 64) % 64);
    });
}

/// Without the parts that `parts.hpp` adds.
void multiply(CudaStream& stream, const Matmul& matmul) {
    const Problem problem = reduce(matmul);
    if (problem.m == 0 || problem.n == 0 || problem.batches() == 0) return;
    const bool library = !stream.state->get<CudaMatmulSettings>().own_kernels;
    const std::optional<Gemm> gemm = library ? plan_gemm(problem, matmul) : std::nullopt;
    if (!gemm) return tiled_matmul(stream, problem, matmul);
    library_matmul(stream, *gemm, matmul);
    if (gemm->remains()) finish_remains(stream, *gemm, matmul);
}

}  // namespace

void matmul(CudaStream& stream, const Matmul& matmul, std::byte* scratch) {
    stream.device->check_usable();
    if (matmul.has_sums()) sum_rows(stream, matmul, scratch);
    multiply(stream, product_part(matmul));
    if (matmul.has_inner()) finish_activation(stream, matmul);
}

void save_matmul_choices(CudaStream& stream, const std::string& path) {
    stream.state->get<MatmulChoices>().save(path, stream.device->properties().name, kNoVersion);
}

bool load_matmul_choices(CudaStream& stream, const std::string& path) {
    return stream.state->get<MatmulChoices>().load(path, stream.device->properties().name, kNoVersion);
}

}  // namespace headroom::kernels
