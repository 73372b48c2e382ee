#include <headroom/data/upload.hpp>

namespace headroom::data {

namespace {

template <class Target>
std::vector<Tensor> upload_samples(Feed& feed, const SampleBatch<Target>& batch) {
    const auto width = [&](const auto& values) { return static_cast<std::int64_t>(values.size()) / batch.rows; };
    const Shape targets = width(batch.targets) == 1 ? Shape{batch.rows} : Shape{batch.rows, width(batch.targets)};
    const auto [x, y] = feed.upload({{batch.features, {batch.rows, width(batch.features)}}, {batch.targets, targets}});
    return {x, y};
}

}  // namespace

std::vector<Tensor> upload(Feed& feed, const ImageBatch& batch) {
    const HostArray images(batch.images, {batch.rows, batch.height, batch.width, batch.channels});
    const auto [x, y] = batch.masks.empty()
                            ? feed.upload({images, {batch.labels, {batch.rows}}})
                            : feed.upload({images, {batch.masks, {batch.rows, batch.height, batch.width}}});
    return {x.permute({0, 3, 1, 2}), y};
}

std::vector<Tensor> upload(Feed& feed, const TokenBatch& batch) {
    const Shape shape{batch.rows, batch.length};
    const auto [inputs, targets] = feed.upload({{batch.inputs, shape}, {batch.targets, shape}});
    return {inputs, targets};
}

std::vector<Tensor> upload(Feed& feed, const SampleBatch<std::int32_t>& batch) { return upload_samples(feed, batch); }
std::vector<Tensor> upload(Feed& feed, const SampleBatch<float>& batch) { return upload_samples(feed, batch); }

}  // namespace headroom::data
