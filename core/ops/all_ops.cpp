#include <headroom/core/ops/all_ops.hpp>

#include <headroom/core/ops/arrange.hpp>
#include <headroom/core/ops/attention.hpp>
#include <headroom/core/ops/batch_norm.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/convolution.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/cumsum.hpp>
#include <headroom/core/ops/dropout.hpp>
#include <headroom/core/ops/embedding.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/feed_forward.hpp>
#include <headroom/core/ops/group_norm.hpp>
#include <headroom/core/ops/gru.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/core/ops/interpolate.hpp>
#include <headroom/core/ops/layer_norm.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/core/ops/logsumexp.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/core/ops/lstm.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/nms.hpp>
#include <headroom/core/ops/norm.hpp>
#include <headroom/core/ops/one_hot.hpp>
#include <headroom/core/ops/pad.hpp>
#include <headroom/core/ops/pool.hpp>
#include <headroom/core/ops/prod.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/rms_norm.hpp>
#include <headroom/core/ops/roi_align.hpp>
#include <headroom/core/ops/rotary.hpp>
#include <headroom/core/ops/sampling.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/core/ops/sort.hpp>
#include <headroom/core/ops/triangle.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>

namespace headroom {

namespace {

template <class... Ops>
void add(std::vector<OpEntry>& all) {
    (all.push_back(op_entry<Ops>()), ...);
}

std::vector<OpEntry> make_list() {
    std::vector<OpEntry> all;
    // Pointwise
    ops::add_unary(all);
    ops::add_binary(all);
    ops::add_comparisons(all);
    add<ops::Where>(all);
    // Shape and dtype, indices
    add<ops::Cast, ops::Clone, ops::Contiguous, ops::Expand, ops::Cat, ops::Flip, ops::Gather, ops::ScatterAdd,
        ops::IndexSelect, ops::OneHot, ops::Tril, ops::Triu>(all);
    // Reductions
    add<ops::Sum, ops::Mean, ops::Max, ops::Min, ops::Var, ops::Std, ops::Norm, ops::LogSumExp, ops::Prod, ops::Argmax,
        ops::Argmin, ops::Cumsum, ops::Argsort, ops::TopK>(all);
    // From nothing, and random
    add<ops::Arange, ops::Linspace, ops::Full, ops::Randn, ops::Rand, ops::RandInt, ops::Randperm, ops::Multinomial,
        ops::CausalMask, ops::Dropout, ops::DropoutAdd>(all);
    // Products
    add<ops::Matmul, ops::Linear, ops::FeedForward, ops::Conv2d, ops::ConvTranspose2d, ops::Embedding>(all);
    // Normalisation and attention
    add<ops::Softmax, ops::LogSoftmax, ops::LayerNorm, ops::RmsNorm, ops::BatchMoments, ops::BatchNorm, ops::GroupNorm,
        ops::AttentionPacked, ops::Attention, ops::RotaryPositions>(all);
    // Images
    add<ops::MaxPool2d, ops::AvgPool2d, ops::AdaptiveAvgPool2d, ops::Interpolate, ops::Pad, ops::RoiAlign, ops::Nms>(
        all);
    // Recurrent networks
    add<ops::Lstm, ops::Gru>(all);
    // Losses
    add<ops::CrossEntropy, ops::LinearCrossEntropy>(all);
    ops::add_element_losses(all);
    return all;
}

}  // namespace

std::span<const OpEntry> all_ops() {
    static const std::vector<OpEntry> list = make_list();
    return list;
}

}  // namespace headroom
