#include <headroom/optim/internal/gradient_exchange.hpp>

#include <exception>
#include <utility>

#include <headroom/kernels/copy/copy.hpp>
#include <headroom/optim/summed_shares.hpp>

namespace headroom::optim {

namespace {

/// At a time: one is often complete before the one that goes first.
constexpr std::size_t kUnderWay = 2;

}  // namespace

GradientExchange::GradientExchange(Parameters& parameters)
    : parameters_(parameters), group_(parameters.context().group()), sharded_(parameters.shard() == Shard::gradients) {}

void GradientExchange::begin_round(bool first, int present) {
    open_ = true;
    first_ = first || !sharded_;
    present_ = sharded_ || !group_ ? present : group_->ranks();
    next_ = 0;
    complete_.assign(parameters_.segments().size(), false);
}

/// Sums that stay where they are gain nothing from an early exchange for which the host waits.
void GradientExchange::complete(const GradientSegment& segment) {
    if (!open_ || !(sharded_ || on_cuda(parameters_.context().exec().stream()))) return;
    const std::vector<GradientSegment>& segments = parameters_.segments();
    complete_[static_cast<std::size_t>(&segment - segments.data())] = true;
    for (; next_ < segments.size() && complete_[next_]; ++next_) add(segments[next_]);
}

void GradientExchange::end_round() {
    if (!open_) return;
    const std::vector<GradientSegment>& segments = parameters_.segments();
    for (; next_ < segments.size(); ++next_) {
        parameters_.fill_unreached(segments[next_]);
        add(segments[next_]);
    }
    while (!under_way_.empty()) finish_first();
    if (group_) await_exchanges(parameters_.context().exec());
    open_ = false;
}

void GradientExchange::participate_in_round(int present) {
    begin_round(false, present);
    if (sharded_) {
        for (const GradientSegment& segment : parameters_.segments()) add(segment);
        next_ = parameters_.segments().size();
    }
    end_round();
}

void GradientExchange::abandon() noexcept {
    open_ = false;
    try {
        if (group_) await_exchanges(parameters_.context().exec());
    } catch (const std::exception&) {  // then nothing runs there any more
    }
    under_way_.clear();
}

std::vector<ShardRange> GradientExchange::shares(const GradientSegment& segment) const {
    return summed_shares(parameters_, segment, group_->ranks());
}

/// The segment's gradients, if this rank has some in this round, to those who sum them.
void GradientExchange::add(const GradientSegment& segment) {
    Exec& exec = parameters_.context().exec();
    if (under_way_.size() == kUnderWay) finish_first();
    UnderWay added{&segment, segment.own_gradients, {}};
    if (!sharded_) {
        const ShardRange own = shares(segment)[static_cast<std::size_t>(group_->rank())];
        added.own = part(segment.gradients, own.first, own.count);
    } else if (first_) {
        added.own = exec.empty_for_model({segment.own.count}, parameters_.dtype(), Category::gradients);
    }
    if (group_)
        added.sum = begin_reduce_scatter(exec, *group_, segment.gradients, shares(segment), present_, added.own.dtype);
    under_way_.push_back(std::move(added));
    if (!group_ || !on_cuda(exec.stream())) finish_first();
}

void GradientExchange::finish_first() {
    Exec& exec = parameters_.context().exec();
    const float beta = first_ ? 0.0f : 1.0f;
    {
        const auto& [segment, own, sum] = under_way_.front();
        if (group_) {
            finish_reduce_scatter(exec, sum, own, beta);
        } else {
            exec.launch(
                [&](auto& stream) { kernels::accumulate(stream, segment->gradients.view(), own.view(), 1.0f, beta); });
        }
        if (sharded_) {
            parameters_.set_own_gradients(*segment, own);
        } else if (parameters_.shards() == 1) {
            begin_all_gather(exec, *group_, segment->gradients, shares(*segment));
        }
    }
    under_way_.pop_front();
}

}  // namespace headroom::optim
