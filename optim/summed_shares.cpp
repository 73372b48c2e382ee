#include <headroom/optim/summed_shares.hpp>

namespace headroom::optim {

std::vector<ShardRange> summed_shares(const Parameters& parameters, const GradientSegment& segment, int ranks) {
    return parameters.shards() > 1 ? segment.shares(ranks) : shard_ranges(segment.count, ranks);
}

}  // namespace headroom::optim
