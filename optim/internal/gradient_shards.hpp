#pragma once
// Gradients of which each rank keeps its share alone (Shard::gradients): those of a micro-batch go to their owners
// while backward makes the rest, and their memory back. Owners add them up in the order of micro-batches, one at a
// time, so that sums have the same bits with any number of ranks.
//
//     GradientShards shards(parameters);
//     shards.begin_round(/*first=*/true, /*present=*/3);
//     context.tape().backward(loss, seed);              // parameters call shards.complete(segment)
//     shards.end_round();
#include <cstddef>
#include <vector>

#include <headroom/core/parameters.hpp>

namespace headroom::optim {

class GradientShards {
  public:
    explicit GradientShards(Parameters& parameters) : parameters_(parameters) {}

    /// A round of micro-batches, which the first `present` ranks have; `first`: of its step.
    void begin_round(bool first, int present);
    /// In any order; they go in that of memory.
    void complete(const GradientSegment& segment);
    /// The segments that were not complete, with zeros for what nothing reached.
    void end_round();
    /// On a rank behind those, in place of its backward.
    void attend_round(int present);

  private:
    void add(const GradientSegment& segment);

    Parameters& parameters_;
    bool first_ = true;
    int present_ = 1;
    std::size_t next_ = 0;        ///< the segment that goes next
    std::vector<bool> complete_;  ///< by segment
};

}  // namespace headroom::optim
