#include "softsign.hpp"

#include "softsign_kernels.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include <headroom/core/apply.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/test/op_checks.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/memory/error.hpp>

using namespace headroom;

// The kernels of the CPU; softsign.cu has the GPU's.
void softsign_forward(CpuStream& stream, const View& x, const View& y) {
    kernels::dispatch_compute(x.dtype, [&]<class T>(kernels::TypeTag<T>) {
        const T* in = x.as<const T>();
        T* out = y.as<T>();
        kernels::parallel_for(stream, x.numel(), x.numel(),
                              [=](std::int64_t i) { out[i] = in[i] / (T(1) + std::abs(in[i])); });
    });
}

void softsign_backward(CpuStream& stream, const View& y, const View& dy, float beta, const View& dx) {
    kernels::dispatch_compute(y.dtype, [&]<class T>(kernels::TypeTag<T>) {
        const T* out = y.as<const T>();
        const T* above = dy.as<const T>();
        T* target = dx.as<T>();
        kernels::parallel_for(stream, y.numel(), y.numel(), [=](std::int64_t i) {
            const T slope = T(1) - std::abs(out[i]);
            const T gradient = above[i] * slope * slope;
            target[i] = beta == 0.0f ? gradient : T(beta) * target[i] + gradient;
        });
    });
}

namespace {

struct Softsign {
    static constexpr OpInfo info{.name = "softsign"};
    struct Attrs {};
    struct Saved {
        Array y;
    };

    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& x) {
        if (x.dtype != compute_dtype(x.dtype)) throw DtypeError("softsign: takes f32 and f64; cast its input");
        if (!x.is_contiguous()) throw ShapeError("softsign: takes row-major inputs only; call contiguous() on it");
        Array y = exec.empty(x.shape(), x.dtype);
        exec.launch([&](auto& stream) { softsign_forward(stream, x.view(), y.view()); });
        return {{y}, y};
    }

    static void backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink) {
        if (auto target = sink.destination(0)) {
            exec.launch([&](auto& stream) {
                softsign_backward(stream, saved.y.view(), dy.view(), target.beta, target.view());
            });
        }
    }

    static std::vector<Sample<Attrs>> samples() {
        return {
            {.label = "matrix", .inputs = {SampleInput::distinct({3, 5})}},
            {.label = "empty", .inputs = {SampleInput::normal({0, 4})}},
            {.label = "integers", .inputs = {SampleInput::index({3}, 3)}, .rejected = "softsign: takes f32 and f64"}};
    }
};

}  // namespace

Tensor softsign(Tensor x) { return apply<Softsign>({}, std::move(x)); }

void check_softsign() {
    test::check_op<Softsign>({.dtypes = {Dtype::f32, Dtype::f64}, .layouts = {test::Layout::contiguous}});
}
