// A stable radix sort of positions by key, three kernels per 8 bits: how often each digit occurs in each tile; where
// each digit of each tile begins; and the move, for which every warp ranks its elements by votes.
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/prefix_sum.cuh>
#include <headroom/kernels/gather/internal/gathering.hpp>
#include <headroom/kernels/gather/internal/segments.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = SortPlan::kDigits;  // one thread per digit, where digits are the work
constexpr unsigned kWarps = kThreads / kWarp;
constexpr int kItems = SortPlan::kTile / kThreads;

HEADROOM_DEVICE unsigned count_bits(std::uint32_t bits) {
#if defined(__CUDACC__)
    return static_cast<unsigned>(__popc(bits));
#else
    return static_cast<unsigned>(std::popcount(bits));
#endif
}

HEADROOM_DEVICE unsigned digit_of(std::uint32_t key, int shift) { return key >> shift & (SortPlan::kDigits - 1); }

struct MakeKeys {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const StridedAxes<2> axes, const IndexReader index,
                                    const IndexCheck check, std::int64_t first, std::int64_t n, const Divisor line,
                                    std::uint32_t* keys) const {
        for (std::int64_t i = block.global_thread(); i < n; i += block.global_threads()) {
            const Offsets<2> at = axes.offsets(first + i);
            const auto rows = static_cast<std::int64_t>(line.divide(static_cast<std::uint64_t>(i))) * check.bound;
            keys[i] = static_cast<std::uint32_t>(rows + check(block, index(at[0]), at[1]));
        }
    }
};

/// counts[digit][tile]
struct CountDigits {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const std::uint32_t* keys, std::int64_t n, int shift,
                                    std::uint32_t* counts) const {
        const Shared<unsigned> here = block.shared<unsigned>(kThreads);
        here[block.thread()] = 0;
        block.sync();
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const std::int64_t i = block.x() * SortPlan::kTile + k * std::int64_t{kThreads} + block.thread();
            if (i < n) block.atomic_add(here, digit_of(keys[i], shift), 1u);
        }
        block.sync();
        counts[std::int64_t{block.thread()} * block.grid_x() + block.x()] = here[block.thread()];
    }
};

/// A block per digit: counts become the sums of the tiles before, totals[digit] the sum of all.
struct SumCounts {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, std::uint32_t* counts, std::uint32_t* totals,
                                    std::int64_t tiles) const {
        const Shared<std::uint32_t> sums = block.shared<std::uint32_t>(block.warps());
        std::uint32_t* row = counts + block.x() * tiles;
        std::uint32_t done = 0;
        for (std::int64_t first = 0; first < tiles; first += block.threads()) {
            const std::int64_t i = first + block.thread();
            std::uint32_t total = 0;
            const std::uint32_t before = sum_before(block, i < tiles ? row[i] : 0, sums, total);
            if (i < tiles) row[i] = done + before;
            done += total;
        }
        if (block.thread() == 0) totals[block.x()] = done;
    }
};

struct MoveByDigit {
    static constexpr unsigned kMaxThreads = kThreads;
    static constexpr unsigned kCounters = kWarps * kThreads;

    const std::uint32_t* keys;
    const std::uint32_t* order;  // null: the position itself
    std::uint32_t* keys_out;
    std::uint32_t* order_out;
    const std::uint32_t* counts;
    const std::uint32_t* totals;

    /// Phases: each warp ranks its neighbouring elements by digit, with a counter per digit of its own; the counters
    /// become the places where the warp's first element of each digit goes; elements go.
    HEADROOM_DEVICE void operator()(Block& block, std::int64_t n, int shift) const {
        const Shared<std::uint32_t> counters = block.shared<std::uint32_t>(kCounters);
        const Shared<std::uint32_t> sums = block.shared<std::uint32_t>(kWarps);
        const std::int64_t first = block.x() * SortPlan::kTile + block.warp() * (kItems * kWarp) + block.lane();
        for (unsigned i = block.thread(); i < kCounters; i += kThreads) counters[i] = 0;
        block.sync();
        std::uint32_t key[kItems], rank[kItems];
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const std::int64_t i = first + k * std::int64_t{kWarp};
            key[k] = i < n ? keys[i] : 0;
            rank[k] = rank_in_warp(block, counters, digit_of(key[k], shift), i < n);
        }
        block.sync();
        make_places(block, counters, sums);
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const std::int64_t i = first + k * std::int64_t{kWarp};
            if (i >= n) continue;
            const std::uint32_t place = counters[block.warp() * kThreads + digit_of(key[k], shift)] + rank[k];
            keys_out[place] = key[k];
            order_out[place] = order == nullptr ? static_cast<std::uint32_t>(i) : order[i];
        }
    }

    /// How many elements with this digit the warp has had before this lane's.
    HEADROOM_DEVICE static std::uint32_t rank_in_warp(Block& block, Shared<std::uint32_t> counters, unsigned digit,
                                                      bool active) {
        std::uint32_t same = block.ballot(kFullWarp, active);
#pragma unroll
        for (int bit = 0; bit < 8; ++bit) {
            const bool set = (digit >> bit & 1) != 0;
            const std::uint32_t lanes = block.ballot(kFullWarp, set);
            same &= set ? lanes : ~lanes;
        }
        const unsigned counter = block.warp() * kThreads + digit;
        const unsigned before = count_bits(same & ((1u << block.lane()) - 1));
        const std::uint32_t earlier = counters[counter];
        block.warp_sync();  // all have read the counter
        if (active && before == 0) counters[counter] = earlier + count_bits(same);
        block.warp_sync();
        return earlier + before;
    }

    HEADROOM_DEVICE void make_places(Block& block, Shared<std::uint32_t> counters, Shared<std::uint32_t> sums) const {
        const unsigned digit = block.thread();
        std::uint32_t total = 0;
        std::uint32_t place = sum_before(block, totals[digit], sums, total);  // keys with smaller digits
        place += counts[std::int64_t{digit} * block.grid_x() + block.x()];    // in the tiles before
        for (unsigned warp = 0; warp < kWarps; ++warp) {
            const std::uint32_t count = counters[warp * kThreads + digit];
            counters[warp * kThreads + digit] = place;
            place += count;
        }
        block.sync();
    }
};

}  // namespace

Sorted sort_positions(CudaStream& stream, const SortPlan& plan, std::byte* scratch, const std::uint32_t* order) {
    if (plan.count == 0) return {nullptr, nullptr, 0};
    const auto list = [&](std::size_t at) { return reinterpret_cast<std::uint32_t*>(scratch + at); };
    std::uint32_t *counts = list(plan.counts_at()), *totals = list(plan.totals_at());
    const auto tiles = static_cast<std::uint32_t>(plan.tiles());
    const unsigned summing = std::min(kThreads, (tiles + kWarp - 1) / kWarp * kWarp);
    for (int pass = 0; pass < plan.passes(); ++pass) {
        const int from = pass % 2, to = 1 - from;
        const std::uint32_t* keys = list(plan.keys_at(from));
        launch(stream, {.x = tiles, .threads = kThreads, .shared_bytes = shared_size<unsigned>(kThreads)},
               CountDigits{}, keys, plan.count, 8 * pass, counts);
        launch(
            stream,
            {.x = SortPlan::kDigits, .threads = summing, .shared_bytes = shared_size<std::uint32_t>(summing / kWarp)},
            SumCounts{}, counts, totals, plan.tiles());
        if (pass > 0) order = list(plan.order_at(from));
        const MoveByDigit move{keys, order, list(plan.keys_at(to)), list(plan.order_at(to)), counts, totals};
        launch(
            stream,
            {.x = tiles,
             .threads = kThreads,
             .shared_bytes = shared_size<std::uint32_t>(MoveByDigit::kCounters) + shared_size<std::uint32_t>(kWarps)},
            move, plan.count, 8 * pass);
    }
    const int last = plan.passes() % 2;
    return {list(plan.keys_at(last)), list(plan.order_at(last)), plan.count};
}

Sorted sort_indices(CudaStream& stream, const IndexLines& indices, const IndexCheck& check, const SortPlan& plan,
                    std::byte* scratch) {
    if (plan.count == 0) return {nullptr, nullptr, 0};
    auto* keys = reinterpret_cast<std::uint32_t*>(scratch + plan.keys_at(0));
    const StridedAxes<2> axes(Walk({&indices.index, &indices.position}, Walk::Order::shape), 2);
    launch(stream, {.x = grid_for(stream, plan.count, kThreads), .loops = true, .threads = kThreads}, MakeKeys{}, axes,
           IndexReader(indices.index), check, indices.first, plan.count, Divisor(indices.line), keys);
    return sort_positions(stream, plan, scratch);
}

Sorted sort_indices(CudaStream& stream, const View& index, const IndexCheck& check, const SortPlan& plan,
                    std::byte* scratch) {
    const View position = contiguous_view(nullptr, Dtype::i64, index.shape);
    return sort_indices(stream, {index, position, 0, std::max<std::int64_t>(1, plan.count)}, check, plan, scratch);
}

}  // namespace headroom::kernels
