#pragma once
// The allocator's data for one stream, under a lock of its own, so that threads on different streams don't contend:
// a hit touches nothing else.
//
// Order of locks: the allocator's, then those of logs, then those of shards, in any order, then the history's. A thread
// that holds a shard's lock without the allocator's takes no other shard's. The driver is called under the allocator's
// and a log's lock only, since a call may take long: a hit needs neither.
#include <array>
#include <atomic>

#include <headroom/memory/allocator/internal/ledger.hpp>
#include <headroom/memory/allocator/internal/quick_cache.hpp>
#include <headroom/memory/allocator/internal/spin_lock.hpp>
#include <headroom/memory/allocator/internal/stream_log.hpp>

namespace headroom::memory {

struct alignas(64) Shard {
    Shard(Driver& driver, StreamId id) : stream(id), log(driver, id) {}

    SpinLock lock;
    const StreamId stream;
    Ledger ledger;
    QuickCache cache;
    StreamLog log;
    /// By other stream: the last ticket that this one waited for. For holders of the allocator's lock.
    std::array<Ticket, 64> seen{};
    Ticket host_seen = 0;  ///< the last ticket of this stream that the host waited for, under the same lock
};

}  // namespace headroom::memory
