#pragma once
// What ranks do with their gradients. With Shard::gradients those of each micro-batch go to their owners while backward
// makes the rest, and their memory back; owners add them up in the order of micro-batches, one at a time, so that sums
// have the same bits with any number of ranks. Else each rank sums its own, and in the last round these sums are added
// up in the order of ranks.
//
// On a GPU two segments may be on their way while backward makes the next one, which then waits for the first of them:
// so memory is given back in the order of one queue, and a dry run can count it.
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

    /// Whether each round of micro-batches is one of exchanges, and not only the last one of a step.
    bool in_each_round() const { return sharded_; }
    /// A round of micro-batches, which the first `present` ranks have; `first`: of its step.
    void begin_round(bool first, int present);
    /// In any order; they go in that of memory. Outside of a round nothing happens.
    void complete(const GradientSegment& segment);
    /// The segments that were not complete, with zeros for what nothing reached. Work from now on finds all sums.
    void end_round();
    /// On a rank behind those, in place of its backward.
    void attend_round(int present);
    /// After an error in a round, or else nothing: what is on its way is forgotten, and its memory is given back behind
    /// it.
    void abandon() noexcept;

  private:
    void add(const GradientSegment& segment);
    void finish_first();
    std::vector<ShardRange> shares(const GradientSegment& segment) const;

    Parameters& parameters_;
    Group* group_;  ///< null alone
    bool sharded_;
    bool open_ = false;
    bool first_ = true;
    int present_ = 1;
    std::size_t next_ = 0;        ///< the segment that goes next
    std::vector<bool> complete_;  ///< by segment
    struct UnderWay {
        const GradientSegment* segment;
        Array own;  ///< where its sum goes
        PendingReduceScatter sum;
    };
    std::deque<UnderWay> under_way_;
};

}  // namespace headroom::optim
