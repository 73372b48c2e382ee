#include "softsign.hpp"

#include "softsign_kernels.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include <headroom/core/apply.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/memory/error.hpp>

using namespace headroom;

// The kernels of the CPU; softsign.cu has the GPU's.
void softsign_forward(CpuStream& stream, const View& x, const View& y) {
    const float* in = x.as<const float>();
    float* out = y.as<float>();
    kernels::parallel_for(stream, x.numel(), x.numel(),
                          [=](std::int64_t i) { out[i] = in[i] / (1.0f + std::abs(in[i])); });
}

void softsign_backward(CpuStream& stream, const View& y, const View& dy, float beta, const View& dx) {
    const float* out = y.as<const float>();
    const float* above = dy.as<const float>();
    float* target = dx.as<float>();
    kernels::parallel_for(stream, y.numel(), y.numel(), [=](std::int64_t i) {
        const float slope = 1.0f - std::abs(out[i]);
        const float gradient = above[i] * slope * slope;
        target[i] = beta == 0.0f ? gradient : beta * target[i] + gradient;
    });
}

namespace {

struct Softsign {
    static constexpr OpInfo info{.name = "softsign"};
    struct Attrs {};
    struct Saved {
        Array y;
    };

    static Result<Saved, Array> forward(Exec& exec, const Attrs&, const Array& x) {
        if (x.dtype != Dtype::f32) throw DtypeError("softsign: takes f32 only; cast its input");
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
        return {{.label = "matrix", .inputs = {SampleInput::distinct({3, 5})}},
                {.label = "empty", .inputs = {SampleInput::normal({0, 4})}},
                {.label = "integers", .inputs = {SampleInput::index({3}, 3)}, .rejected = "softsign: takes f32 only"}};
    }
};

}  // namespace

Tensor softsign(Tensor x) { return apply<Softsign>({}, std::move(x)); }
