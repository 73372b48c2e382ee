#pragma once
// The work that may still use a block's bytes: for each stream, the ticket of the event to wait for. Three streams are
// kept with their tickets. Merged blocks in a program with many streams may have more; for those only the stream is
// kept, and a wait is for its newest event. A context has one stream, so only tests and replayed traces have more so
// far; offload to host memory will.
//
//     memory::PendingSet pending;
//     pending.add(0, ticket);
//     pending.merge(neighbour);
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <headroom/memory/stream_id.hpp>

namespace headroom::memory {

/// The number of an event of a stream, from 1; it may be that of the next event, which is not recorded yet. In a live
/// block, 0 means that the stream uses the block.
using Ticket = std::uint64_t;

class PendingSet {
  public:
    /// Stands for the newest event of a stream.
    static constexpr Ticket kNewest = (Ticket{1} << 56) - 1;

    /// A stream that is already listed keeps the later ticket; 0 counts as later than all others.
    void add(StreamId stream, Ticket ticket) noexcept {
        for (std::uint64_t& entry : exact_) {
            if (entry != 0 && stream_of(entry) != stream) continue;
            if (entry == 0 || ticket_of(entry) - 1 < ticket - 1) entry = pack(stream, ticket);
            return;
        }
        rest_ |= std::uint64_t{1} << stream;
    }
    void merge(const PendingSet& other) noexcept {
        other.for_each([this](StreamId stream, Ticket ticket) {
            if (ticket == kNewest) {
                rest_ |= std::uint64_t{1} << stream;
            } else {
                add(stream, ticket);
            }
        });
    }
    /// Calls visit(stream, ticket), with kNewest where only the stream is known.
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const std::uint64_t entry : exact_) {
            if (entry != 0) visit(stream_of(entry), ticket_of(entry));
        }
        for (std::uint64_t rest = rest_; rest; rest &= rest - 1) {
            visit(static_cast<StreamId>(std::countr_zero(rest)), kNewest);
        }
    }
    void clear() noexcept { *this = {}; }

    bool empty() const noexcept { return exact_[0] == 0 && rest_ == 0; }
    /// If there is exactly one stream, writes it to `stream` and returns true.
    bool single(StreamId& stream) const noexcept {
        if (exact_[0] == 0 || exact_[1] != 0 || rest_ != 0) return false;
        stream = stream_of(exact_[0]);
        return true;
    }

  private:
    // ticket * 128 + stream + 64, so that no entry is 0.
    static constexpr std::uint64_t pack(StreamId stream, Ticket ticket) noexcept { return ticket << 7 | 64 | stream; }
    static constexpr StreamId stream_of(std::uint64_t entry) noexcept { return static_cast<StreamId>(entry & 63); }
    static constexpr Ticket ticket_of(std::uint64_t entry) noexcept { return entry >> 7; }

    std::array<std::uint64_t, 3> exact_{};  ///< filled from the front
    std::uint64_t rest_ = 0;
};

}  // namespace headroom::memory
