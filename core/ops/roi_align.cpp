#include <headroom/core/ops/roi_align.hpp>

#include <limits>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/roi_align/roi_align.hpp>

namespace headroom {

namespace ops {

OpResult<RoiAlign::Saved, Array> RoiAlign::forward(Exec& exec, const Attrs& attrs, const Array& features,
                                                   const Array& boxes) {
    check_floating("roi_align", {{"features", features}});
    check_number("roi_align", {"boxes", boxes});
    const bool fits = features.rank() == 4 && features.size(2) > 0 && features.size(3) > 0;
    check_form("roi_align", {"features", features}, fits, "[N, C, H, W] with rows and columns");
    check_form("roi_align", {"boxes", boxes}, boxes.rank() == 2 && boxes.size(1) == 5, "[R, 5]: image, x1, y1, x2, y2");
    if (attrs.size[0] < 1 || attrs.size[1] < 1) {
        throw ShapeError(
            fmt::format("roi_align: the result must have rows and columns, got {} x {}", attrs.size[0], attrs.size[1]));
    }
    constexpr double most = 1 << 24;
    check_range("roi_align", "scale", attrs.options.scale, std::numeric_limits<float>::min(), most);
    check_range("roi_align", "sampling", static_cast<double>(attrs.options.sampling), 0, most);
    const Shape shape{boxes.size(0), features.size(1), attrs.size[0], attrs.size[1]};
    Array y = exec.empty_like(shape, features.strides(), features.dtype);
    exec.launch(
        [&](auto& stream) { kernels::roi_align(stream, features.view(), boxes.view(), attrs.options, y.view()); });
    return {{boxes}, std::move(y)};
}

void RoiAlign::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0)) {
        exec.run<kernels::RoiAlignGradientPlan>(dy.view(), saved.boxes.view(), attrs.options, dx.beta, dx.view());
    }
}

std::vector<Sample<RoiAlign::Attrs>> RoiAlign::samples() {
    using In = SampleInput;
    const In x = In::normal({3, 2, 5, 6}), boxes = In::index({4, 5}, 3);
    return {
        {"samples in each bin", {{2, 3}, {.scale = 1.5, .sampling = 2}}, {x, boxes}},
        {"as many samples as pixels", {{2, 1}, {.scale = 2.25}}, {x, boxes}},
        {"aligned", {{3, 2}, {.scale = 2, .sampling = 3, .aligned = true}}, {In::normal({3, 8, 4, 4}), boxes}},
        {"floating boxes", {{2, 2}}, {x, In::positive({3, 5}).without_gradient()}},
        {"one pixel", {{2, 2}}, {In::normal({3, 2, 1, 1}), boxes}},
        {"no boxes", {{2, 2}}, {x, In::index({0, 5}, 3)}},
        {"no channels", {{2, 2}}, {In::normal({3, 0, 4, 4}), boxes}},
        {"image outside", {{2, 2}}, {In::normal({1, 2, 4, 4}), In::index({40, 5}, 9)}, "roi_align: index of the image"},
        {"other boxes", {{2, 2}}, {x, In::index({4, 4}, 3)}, "boxes [4, 4] must be [R, 5]: image, x1, y1, x2, y2"},
        {"one image", {{2, 2}}, {In::normal({2, 5, 6}), boxes}, "features [2, 5, 6] must be [N, C, H, W]"},
        {"no rows", {{2, 2}}, {In::normal({3, 2, 0, 6}), boxes}, "features [3, 2, 0, 6] must be [N, C, H, W]"},
        {"to nothing", {{0, 2}}, {x, boxes}, "the result must have rows and columns, got 0 x 2"},
        {"no scale", {{2, 2}, {.scale = 0}}, {x, boxes}, "scale must be in ["},
        {"not a number", {{2, 2}, {.scale = std::nan("")}}, {x, boxes}, "scale must be in ["},
        {"fewer samples than none", {{2, 2}, {.sampling = -1}}, {x, boxes}, "sampling must be in [0, "},
        {"integers", {{2, 2}}, {In::index({3, 2, 4, 4}, 9), boxes}, "features must be floating"},
        {"truth values", {{2, 2}}, {x, In::boolean({4, 5})}, "roi_align: boxes"},
        {"no features", {{2, 2}}, {In::none(), boxes}, "undefined"},
        {"undefined boxes", {{2, 2}}, {x, In::none()}, "undefined"}};
}

}  // namespace ops

Tensor roi_align(Tensor features, Tensor boxes, IntPair size, const RoiAlignOptions& options) {
    if (boxes.requires_grad()) {
        throw Error("roi_align: boxes must not require a gradient; call detach() on them");
    }
    return apply<ops::RoiAlign>({size, options}, std::move(features), std::move(boxes));
}

}  // namespace headroom
