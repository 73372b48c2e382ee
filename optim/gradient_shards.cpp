#include <headroom/optim/internal/gradient_shards.hpp>

#include <headroom/kernels/copy/copy.hpp>

namespace headroom::optim {

void GradientShards::begin_round(bool first, int present) {
    first_ = first;
    present_ = present;
    next_ = 0;
    complete_.assign(parameters_.segments().size(), false);
}

void GradientShards::complete(const GradientSegment& segment) {
    const std::vector<GradientSegment>& segments = parameters_.segments();
    complete_[static_cast<std::size_t>(&segment - segments.data())] = true;
    for (; next_ < segments.size() && complete_[next_]; ++next_) add(segments[next_]);
}

void GradientShards::end_round() {
    const std::vector<GradientSegment>& segments = parameters_.segments();
    for (; next_ < segments.size(); ++next_) {
        parameters_.fill_unreached(segments[next_]);
        add(segments[next_]);
    }
}

void GradientShards::attend_round(int present) {
    begin_round(false, present);
    for (const GradientSegment& segment : parameters_.segments()) add(segment);
}

/// The segment's gradients of this round, if this rank has some, to their owners' sums.
void GradientShards::add(const GradientSegment& segment) {
    Context& context = parameters_.context();
    Exec& exec = context.exec();
    const int ranks = parameters_.shards();
    const float beta = first_ ? 0.0f : 1.0f;
    Array own = segment.own_gradients;
    if (first_) own = exec.empty_for_model({segment.own.count}, parameters_.dtype(), Category::gradients);
    if (ranks > 1) {
        sum_shares(exec, *context.group(), segment.gradients, segment.shares(ranks), present_, own, beta);
    } else {
        exec.launch(
            [&](auto& stream) { kernels::accumulate(stream, segment.gradients.view(), own.view(), 1.0f, beta); });
    }
    parameters_.set_own_gradients(segment, std::move(own));
}

}  // namespace headroom::optim
