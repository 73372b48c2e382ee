#pragma once
// Exchanges gradients between ranks. With Shard::gradients each micro-batch's gradients are sent to their owners while
// backward computes the rest, and their memory is freed. Owners add them one at a time in the order of micro-batches,
// so the sums have the same bits with any number of ranks. Otherwise each rank sums its own gradients, and in the last
// round the ranks' sums are added in rank order.
//
// On a GPU two segments may be in flight while backward computes the next one, which then waits for the first of them.
// Memory is therefore freed in the order of one queue, and a dry run can count it.
//
//     GradientExchange exchange(parameters);
//     exchange.begin_round(/*first=*/true, /*present=*/3);
//     context.tape().backward(loss, seed);              // parameters call exchange.complete(segment)
//     exchange.end_round();
#include <cstddef>
#include <deque>
#include <vector>

#include <headroom/core/parameters.hpp>

namespace headroom::optim {

class GradientExchange {
  public:
    explicit GradientExchange(Parameters& parameters);
    ~GradientExchange() { abandon(); }
    GradientExchange(const GradientExchange&) = delete;
    GradientExchange& operator=(const GradientExchange&) = delete;

    /// Whether gradients are exchanged in every round of micro-batches, not only in the last one of a step.
    bool in_each_round() const { return sharded_; }
    /// Begins a round, in which the first `present` ranks have a micro-batch each; `first`: whether it is the first of
    /// its step.
    void begin_round(bool first, int present);
    /// Marks a segment as complete. Segments may complete in any order; they are sent in memory order. Does nothing
    /// outside of a round.
    void complete(const GradientSegment& segment);
    /// Sends the remaining segments, with zeros for gradients that nothing reached. Later work sees all sums.
    void end_round();
    /// Takes part in a round on a rank that has no micro-batch in it.
    void participate_in_round(int present);
    /// Drops the transfers of a failed round; their memory is freed once they are done. Does nothing if no round is
    /// open.
    void abandon() noexcept;

  private:
    void add(const GradientSegment& segment);
    void finish_first();
    std::vector<ShardRange> shares(const GradientSegment& segment) const;

    Parameters& parameters_;
    Group* group_;  ///< null with one process
    bool sharded_;
    bool open_ = false;
    bool first_ = true;
    int present_ = 1;
    std::size_t next_ = 0;        ///< the segment that goes next
    std::vector<bool> complete_;  ///< by segment
    struct UnderWay {
        const GradientSegment* segment;
        Array own;  ///< receives its sum
        PendingReduceScatter sum;
    };
    std::deque<UnderWay> under_way_;
};

}  // namespace headroom::optim
