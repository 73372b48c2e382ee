#pragma once
// Uploads the batches of the library's datasets as tensors on a context's device. For your own batches, call
// `Feed::upload`.
//
//     data::Feed feed(context);
//     const std::vector<Tensor> tensors = data::upload(feed, *loader.next());  // images and labels
#include <cstdint>
#include <vector>

#include <headroom/core/tensor.hpp>
#include <headroom/data/dataset.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/data/image_dataset.hpp>
#include <headroom/data/text_windows.hpp>

namespace headroom::data {

/// Images [N, C, H, W], channels-last in memory, then labels [N], or masks [N, H, W] if the batch has masks.
std::vector<Tensor> upload(Feed& feed, const ImageBatch& batch);
/// Inputs and targets [N, T].
std::vector<Tensor> upload(Feed& feed, const TokenBatch& batch);
/// Features [N, F] and targets [N, M], or targets [N] if there is one per sample.
std::vector<Tensor> upload(Feed& feed, const SampleBatch<std::int32_t>& batch);
std::vector<Tensor> upload(Feed& feed, const SampleBatch<float>& batch);

}  // namespace headroom::data
