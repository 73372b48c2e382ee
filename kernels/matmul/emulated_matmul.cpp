// Matmul in builds with HEADROOM_CUDA=EMULATED: what cuBLASLt would compute, the CPU kernels do, everything else is
// done by the kernels that a GPU would run.
#include <vector>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/emulated_thread.hpp>
#include <headroom/kernels/matmul/choices.hpp>
#include <headroom/kernels/matmul/gemm.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/matmul/on_gpu.hpp>

namespace headroom::kernels {

namespace {

constexpr std::size_t kNoVersion = 0;

/// As cuBLASLt would: without what its epilogues lack.
void library_matmul(CudaStream& stream, const Gemm& gemm, Matmul matmul) {
    if (!gemm.bias) matmul.bias = {};
    matmul.activation = gemm.activation;
    matmul.outer = {};
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

}  // namespace

void matmul(CudaStream& stream, const Matmul& matmul, std::byte* scratch) {
    stream.device->check_usable();
    matmul_by_parts(stream, matmul, scratch, [&](const Gemm& gemm, const Matmul& part) {
        library_matmul(stream, gemm, part);
        return true;
    });
}

void save_matmul_choices(CudaStream& stream, const std::string& path) {
    stream.state->get<MatmulChoices>().save(path, stream.device->properties().name, kNoVersion);
}

bool load_matmul_choices(CudaStream& stream, const std::string& path) {
    return stream.state->get<MatmulChoices>().load(path, stream.device->properties().name, kNoVersion);
}

}  // namespace headroom::kernels
