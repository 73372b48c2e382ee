#include <headroom/core/ops/internal/images.hpp>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/resample/resample.hpp>

namespace headroom::ops {

void check_images(const char* op, const Array& x) {
    check_floating(op, {{"x", x}});
    const bool fits = x.rank() == 4 && x.size(2) > 0 && x.size(3) > 0;
    check_form(op, {"x", x}, fits, "[N, C, H, W] with rows and columns");
}

Array resampled(Exec& exec, const Array& x, const ImageMaps& maps) {
    Array y = exec.empty_like({x.size(0), x.size(1), maps.rows.out, maps.columns.out}, x.strides(), x.dtype);
    exec.launch([&](auto& stream) { kernels::resample(stream, x.view(), maps.rows, maps.columns, 0.0f, y.view()); });
    return y;
}

void give_resampled(Exec& exec, const Array& dy, ImageMaps maps, GradSink& sink) {
    const auto dx = sink.destination(0);
    if (!dx) return;
    maps.rows.back = maps.columns.back = true;
    exec.launch(
        [&](auto& stream) { kernels::resample(stream, dy.view(), maps.rows, maps.columns, dx.beta, dx.view()); });
}

}  // namespace headroom::ops
