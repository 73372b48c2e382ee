#include <headroom/training/data_task.hpp>

#include <exception>

namespace headroom::training {

namespace {

template <class Target>
std::vector<Tensor> upload_samples(data::Feed& feed, const data::SampleBatch<Target>& batch) {
    const auto width = [&](const auto& values) { return static_cast<std::int64_t>(values.size()) / batch.rows; };
    const Shape targets = width(batch.targets) == 1 ? Shape{batch.rows} : Shape{batch.rows, width(batch.targets)};
    const auto [x, y] = feed.upload({{batch.features, {batch.rows, width(batch.features)}}, {batch.targets, targets}});
    return {x, y};
}

}  // namespace

void share_validation(Context& context, const std::function<void(const data::DataShard&)>& work,
                      const std::function<void(Group&)>& combine) {
    Group* const group = context.group();
    if (!group) return work({});
    std::exception_ptr unreadable;
    try {
        work({group->rank(), group->ranks(), group->ranks()});
    } catch (const FileError&) {
        unreadable = std::current_exception();
    }
    if (!context.dry() && any(*group, unreadable ? 1 : 0) && !unreadable)
        throw FileError("another process can't read a batch");
    if (unreadable) std::rethrow_exception(unreadable);
    if (!context.dry()) combine(*group);
}

std::vector<Tensor> upload(data::Feed& feed, const data::ImageBatch& batch) {
    const data::HostArray images(batch.images, {batch.rows, batch.height, batch.width, batch.channels});
    const auto [x, y] = batch.masks.empty()
                            ? feed.upload({images, {batch.labels, {batch.rows}}})
                            : feed.upload({images, {batch.masks, {batch.rows, batch.height, batch.width}}});
    return {x.permute({0, 3, 1, 2}), y};
}

std::vector<Tensor> upload(data::Feed& feed, const data::TokenBatch& batch) {
    const Shape shape{batch.rows, batch.length};
    const auto [inputs, targets] = feed.upload({{batch.inputs, shape}, {batch.targets, shape}});
    return {inputs, targets};
}

std::vector<Tensor> upload(data::Feed& feed, const data::SampleBatch<std::int32_t>& batch) {
    return upload_samples(feed, batch);
}
std::vector<Tensor> upload(data::Feed& feed, const data::SampleBatch<float>& batch) {
    return upload_samples(feed, batch);
}

}  // namespace headroom::training
