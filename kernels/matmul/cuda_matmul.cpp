// Products on a GPU by cuBLASLt.
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/internal/cuda_timing.hpp>
#include <headroom/kernels/internal/one_line.hpp>
#include <headroom/kernels/matmul/internal/choices.hpp>
#include <headroom/kernels/matmul/internal/cuda_gemm.hpp>
#include <headroom/kernels/matmul/internal/gemm.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

BlasMatmul& blas_of(CudaStream& stream) {
    BlasState& state = stream.state->get<BlasState>();
    if (!state.blas) {
        stream.device->make_current();
        state.blas = std::make_unique<BlasMatmul>(load_blas());
    }
    return *state.blas;
}

}  // namespace

bool run_gemm(CudaStream& stream, const Gemm& gemm, const GemmCall& call, const WithoutEpilogue& apart) {
    stream.device->make_current();
    BlasMatmul::Options options{.stream = static_cast<cudaStream_t>(stream.device->native()),
                                .tf32 = stream.compute.tf32 && gemm.operand == Dtype::f32,
                                .capturing = stream.device->capturing(),
                                .apart = apart ? &apart : nullptr};
    std::optional<TuningTrial> trial;  // begins when an algorithm is tried
    if (stream.compute.tune && stream.state->get<TuningTime>().left()) {
        options.timer = std::bind_front(stream.state->get<TuningTime>().timer, std::ref(*stream.device));
        options.in_time = [&] {
            if (!trial) trial.emplace(stream.state->get<TuningTime>());
            return trial->left();
        };
    }
    return blas_of(stream).run(gemm, call, options, stream.state->get<MatmulChoices>());
}

std::string gemm_library(CudaStream& stream) {
    try {
        const std::size_t version = blas_of(stream).version();
        return fmt::format("cuBLASLt {}.{}.{}{}", version / 10000, version / 100 % 100, version % 100,
                           stream.state->get<TuningTime>().text());
    } catch (const Error& error) {  // no library, or no memory for it
        return one_line(error.what());
    }
}

void save_matmul_choices(CudaStream& stream, const std::string& path) {
    stream.state->get<MatmulChoices>().save(path, stream.device->properties().name, blas_of(stream).version());
}

bool load_matmul_choices(CudaStream& stream, const std::string& path) {
    return stream.state->get<MatmulChoices>().load(path, stream.device->properties().name, blas_of(stream).version());
}

}  // namespace headroom::kernels
