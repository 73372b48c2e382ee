// What stands in for cuBLASLt in the emulator of tests: the CPU's kernels, which are told what cuBLASLt
// would be told and no more.
#include <cstring>
#include <vector>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/internal/emulated_thread.hpp>
#include <headroom/kernels/matmul/internal/choices.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/tests/simt/gpu/emulated_gemm.hpp>

namespace headroom::kernels {

namespace {

constexpr std::size_t kNoVersion = 0, kEdge = 4096;

struct Matrix {
    std::int64_t rows, columns, ld;  ///< columns are `ld` apart
    bool transposed;
    std::int64_t batch;
    std::int64_t Gemm::Loop::*loop;
};

/// All batches of a matrix, or of its transpose.
View view_of(const Gemm& gemm, const void* data, Dtype dtype, const Matrix& x, bool transpose) {
    View view{.data = const_cast<void*>(data), .dtype = dtype, .shape = {}, .strides = {}};
    const auto add = [&](std::int64_t size, std::int64_t stride) {
        view.shape.push_back(size);
        view.strides.push_back(stride);
    };
    for (const Gemm::Loop& loop : gemm.loops) {
        if (loop.size > 1) add(loop.size, loop.*x.loop);
    }
    if (gemm.batches > 1) add(gemm.batches, x.batch);
    add(x.rows, x.transposed ? x.ld : 1);
    add(x.columns, x.transposed ? 1 : x.ld);
    return transpose ? transposed(view) : view;
}

/// The product by rows: where D is the transposed c, it is b^T a^T.
Matmul matmul_of(const Gemm& g, const GemmCall& call) {
    const View a =
        view_of(g, call.a, g.operand, {g.rows, g.depth, g.lda, g.transpose_a, g.a_batch, &Gemm::Loop::a}, g.swapped);
    const View b =
        view_of(g, call.b, g.operand, {g.depth, g.columns, g.ldb, g.transpose_b, g.b_batch, &Gemm::Loop::b}, g.swapped);
    const Matrix d{g.rows, g.columns, g.ldd, false, g.d_batch, &Gemm::Loop::d};
    Matmul matmul{.a = g.swapped ? b : a,
                  .b = g.swapped ? a : b,
                  .c = view_of(g, call.d, g.result, d, g.swapped),
                  .beta = call.beta,
                  .activation = g.activation};
    const auto vector = [&](std::int64_t size) {
        return contiguous_view(const_cast<std::byte*>(call.bias), g.result, {size});
    };
    if (g.bias) matmul.bias = vector(g.rows);
    if (g.sums) matmul.sums = vector(g.swapped ? g.columns : g.rows);
    if (g.has_inner()) matmul.inner = view_of(g, call.inner, g.result, d, g.swapped);
    matmul.derivative = g.derivative;
    return matmul;
}

}  // namespace

bool run_gemm(CudaStream& stream, const Gemm& gemm, const GemmCall& call, const WithoutEpilogue& apart) {
    stream.device->check_usable();
    const EmulatedBlas& blas = stream.state->get<EmulatedBlas>();
    if (blas.takes && !blas.takes(gemm)) return false;
    if (blas.tries && apart && apart() && apart()) return false;
    const CpuStream host{.threads = stream.threads, .state = stream.state};
    static_cast<device::EmulatedDevice*>(stream.device->native())
        ->call([=, bytes = gemm.result_bytes(), matmul = matmul_of(gemm, call)] {
            CpuStream cpu = host;
            const MatmulPlan plan(cpu, matmul);
            std::vector<std::byte> memory(plan.scratch() + 64);
            const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
            plan.run(cpu, memory.data() + (64 - address % 64) % 64);
            std::memset(call.workspace, 0xff, kEdge);  // cuBLASLt leaves what it likes there
            std::memset(call.workspace + kGemmWorkspace - kEdge, 0xff, kEdge);
            if (call.trial != nullptr) std::memset(call.trial, 0xff, bytes);
        });
    return true;
}

std::string gemm_library(CudaStream&) { return "the emulator's cuBLASLt"; }

void save_matmul_choices(CudaStream& stream, const std::string& path) {
    stream.state->get<MatmulChoices>().save(path, stream.device->properties().name, kNoVersion);
}

bool load_matmul_choices(CudaStream& stream, const std::string& path) {
    return stream.state->get<MatmulChoices>().load(path, stream.device->properties().name, kNoVersion);
}

}  // namespace headroom::kernels
