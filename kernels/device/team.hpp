#pragma once
// The threads that work on one row: some warps of a block. A row that fits one warp gets a warp, and several such teams
// share a block; a longer row gets a whole block. All teams of a block step through their rows together, with an empty
// row for teams that have none left, because they synchronise with each other.
//
//     launch(stream, team_launch<float>(rows, warps), Kernel{}, rows, warps, ...);           // host
//     Team<float> team(block, warps);                                                        // kernel
//     for (std::int64_t base = team.first_row(); base < rows; base += team.row_step()) {
//         const std::int64_t row = base + team.index();                                      // may be >= rows
//         float sum = team.sum(...);
//     }
#include <algorithm>
#include <cstdint>
#include <limits>

#include <headroom/kernels/device/block.hpp>

namespace headroom::kernels::device {

/// The most warps per row in kernels that keep the row in registers, and their kMaxThreads. The latter is larger
/// because it leaves a thread 80 registers instead of 128, so that 24 warps fit a multiprocessor instead of 16.
inline constexpr unsigned kRowWarps = 16, kRowThreads = 768;

/// The larger value; if one is NaN, the other.
struct LargestNumber {
    template <class T>
    HEADROOM_DEVICE T operator()(T a, T b) const {
        return std::fmax(a, b);
    }
};

template <class C>
struct Pair {
    C first, second;
};

/// Warps for a row of `vectors` accesses if each thread keeps `kept` of them: a power of two up to `most`.
constexpr unsigned team_warps(std::int64_t vectors, int kept, unsigned most) {
    unsigned warps = 1;
    while (warps < most && vectors > std::int64_t{kWarp} * warps * kept) warps *= 2;
    return warps;
}

/// Elements of shared memory that a Team<C> needs.
constexpr std::size_t team_scratch(unsigned warps_of_block) { return 4 * std::size_t{warps_of_block}; }

/// A grid with one team of `warps` warps per row, up to the largest possible grid.
template <class C>
LaunchShape team_launch(std::int64_t rows, unsigned warps) {
    const unsigned teams = warps == 1 ? 4 : 1;
    const std::int64_t blocks = std::min<std::int64_t>((rows + teams - 1) / teams, 0x7fffffff);
    return {.x = static_cast<std::uint32_t>(blocks),
            .threads = kWarp * warps * teams,
            .shared_bytes = shared_size<C>(team_scratch(warps * teams))};
}

template <class C>
class Team {
  public:
    /// `warps` must divide the block's number of warps.
    HEADROOM_DEVICE Team(Block& block, unsigned warps)
        : block_(block), warps_(warps), scratch_(block.shared<C>(team_scratch(block.warps()))) {}

    HEADROOM_DEVICE unsigned count() const { return block_.warps() / warps_; }
    HEADROOM_DEVICE unsigned index() const { return block_.warp() / warps_; }
    HEADROOM_DEVICE unsigned threads() const { return warps_ * kWarp; }
    HEADROOM_DEVICE unsigned thread() const { return block_.thread() - index() * threads(); }
    HEADROOM_DEVICE std::int64_t first_row() const { return std::int64_t{block_.x()} * count(); }
    HEADROOM_DEVICE std::int64_t row_step() const { return std::int64_t{block_.grid_x()} * count(); }

    /// In an order that depends only on `warps`; all threads get the same bits. One `sync`, or none for teams of one
    /// warp: consecutive calls use different halves of the scratch, and the sync between them frees the other half.
    template <class Op>
    HEADROOM_DEVICE C reduce(C value, Op op, C identity) {
        value = block_.warp_reduce(value, op);
        if (warps_ == 1) return value;
        const unsigned half = next_half();
        if (block_.lane() == 0) scratch_[half + block_.warp()] = value;
        block_.sync();
        value = identity;
        if (block_.lane() < warps_) value = scratch_[half + index() * warps_ + block_.lane()];
        return block_.warp_reduce(value, op);
    }
    HEADROOM_DEVICE C sum(C value) { return reduce(value, Sum{}, C{0}); }
    HEADROOM_DEVICE C largest(C value) { return reduce(value, LargestNumber{}, -std::numeric_limits<C>::infinity()); }
    /// Two sums for the price of one sync.
    HEADROOM_DEVICE Pair<C> sums(C first, C second) {
        first = block_.warp_reduce(first, Sum{});
        second = block_.warp_reduce(second, Sum{});
        if (warps_ == 1) return {first, second};
        const unsigned half = next_half(), other = half + block_.warps();
        if (block_.lane() == 0) {
            scratch_[half + block_.warp()] = first;
            scratch_[other + block_.warp()] = second;
        }
        block_.sync();
        first = C{0}, second = C{0};
        if (block_.lane() < warps_) {
            first = scratch_[half + index() * warps_ + block_.lane()];
            second = scratch_[other + index() * warps_ + block_.lane()];
        }
        return {block_.warp_reduce(first, Sum{}), block_.warp_reduce(second, Sum{})};
    }

  private:
    HEADROOM_DEVICE unsigned next_half() {
        odd_ = !odd_;
        return odd_ ? 2 * block_.warps() : 0;
    }

    Block& block_;
    unsigned warps_;
    Shared<C> scratch_;
    bool odd_ = false;
};

}  // namespace headroom::kernels::device
