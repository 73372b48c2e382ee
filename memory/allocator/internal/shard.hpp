#pragma once
// The allocator's data for one stream, under its own lock, so that threads on different streams don't contend: a cache
// hit touches nothing else.
//
// Lock order: the allocator's, logs, shards (in any order), the history's. A thread that holds a shard's lock without
// the allocator's takes no other shard's. The driver is called only under the allocator's or a log's lock, because a
// call may take long and a hit needs neither.
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
    /// Per other stream: the last ticket that this stream waited for. Guarded by the allocator's lock.
    std::array<Ticket, 64> seen{};
    Ticket host_seen = 0;  ///< the last ticket of this stream that the host waited for; same lock
};

}  // namespace headroom::memory
