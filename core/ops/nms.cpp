#include <headroom/core/ops/nms.hpp>

#include <cmath>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/nms/nms.hpp>
#include <headroom/kernels/sort/sort.hpp>

namespace headroom {

namespace ops {

OpResult<Nms::Saved, Array> Nms::forward(Exec& exec, const Attrs& attrs, const Array& boxes, const Array& scores,
                                         const Array& groups) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    check_number("nms", {"boxes", boxes});
    check_number("nms", {"scores", scores});
    check_form("nms", {"boxes", boxes}, boxes.rank() == 3 && boxes.size(2) == 4, "[N, K, 4]: x1, y1, x2, y2");
    const Shape list{boxes.size(0), boxes.size(1)};
    check_shape("nms", {"scores", scores}, list, {"boxes", boxes});
    if (groups.defined()) {
        check_index("nms", {"groups", groups});
        check_shape("nms", {"groups", groups}, list, {"boxes", boxes});
    }
    check_range("nms", "threshold", attrs.threshold, 0, 1);
    check_range("nms", "min_score", attrs.min_score, -infinity, infinity);
    check_range("nms", "most", static_cast<double>(attrs.most), 0, infinity);
    Array y = exec.empty({boxes.size(0), attrs.most > 0 ? attrs.most : boxes.size(1)}, Dtype::i64);
    const Array order = exec.empty(list, Dtype::i64, Category::workspace);
    exec.run<kernels::ArgsortPlan>(scores.view(), 1, true, order.view());
    const kernels::Nms call{boxes.view(),    scores.view(),  order.view(), groups.defined() ? groups.view() : View{},
                            attrs.threshold, attrs.min_score};
    exec.launch([&](auto& stream) { kernels::nms(stream, call, y.view()); });
    return {{}, std::move(y)};
}

std::vector<Sample<Nms::Attrs>> Nms::samples() {
    using In = SampleInput;
    constexpr double all = -std::numeric_limits<double>::infinity();
    const In boxes = In::index({2, 30, 4}, 9), scores = In::distinct({2, 30}).without_gradient();
    return {{"all of an image in one group", {0.3, all, 0}, {boxes, scores, In::none()}},
            {"groups, equal scores", {0.5, 1, 12}, {boxes, In::index({2, 30}, 4), In::index({2, 30}, 3)}},
            {"more places than boxes", {0, -0.5, 40}, {boxes, scores, In::none()}},
            {"one box", {0.5, all, 1}, {In::index({1, 1, 4}, 9), In::index({1, 1}, 3), In::none()}},
            {"no boxes", {0.5, all, 3}, {In::index({2, 0, 4}, 9), In::index({2, 0}, 3), In::none()}},
            {"no images", {0.5, all, 3}, {In::index({0, 5, 4}, 9), In::index({0, 5}, 3), In::none()}},
            {"one image", {0.5, all, 3}, {In::index({5, 4}, 9), In::index({5}, 3), In::none()}, "boxes [5, 4] must be"},
            {"scores of others", {0.5, all, 3}, {boxes, In::index({2, 29}, 3), In::none()}, "scores [2, 29] must be"},
            {"groups of others", {0.5, all, 3}, {boxes, scores, In::index({2, 29}, 3)}, "groups [2, 29] must be"},
            {"floating groups", {0.5, all, 3}, {boxes, scores, In::normal({2, 30})}, "groups must be i32 or i64"},
            {"threshold", {1.5, all, 3}, {boxes, scores, In::none()}, "threshold must be in [0, 1]"},
            {"score", {0.5, std::nan(""), 3}, {boxes, scores, In::none()}, "min_score must be in"},
            {"most", {0.5, all, -1}, {boxes, scores, In::none()}, "most must be in [0, "},
            {"truth values", {0.5, all, 3}, {boxes, In::boolean({2, 30}), In::none()}, "nms: scores"},
            {"undefined boxes", {0.5, all, 3}, {In::none(), scores, In::none()}, "undefined"},
            {"undefined scores", {0.5, all, 3}, {boxes, In::none(), In::none()}, "undefined"}};
}

}  // namespace ops

Tensor nms(Tensor boxes, Tensor scores, double threshold, const NmsOptions& options) {
    return apply<ops::Nms>({threshold, options.min_score, options.most}, std::move(boxes), std::move(scores),
                           options.groups);
}

}  // namespace headroom
