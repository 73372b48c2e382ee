#pragma once
// The allocator's data for one stream, under a lock of its own, so that threads on different streams don't contend: a
// hit touches nothing else. Internal to memory/.
//
// Order of locks: the allocator's, then those of shards, in any order, then the history's. A thread that holds a
// shard's lock without the allocator's takes no other shard's.
#include <array>

#include <headroom/memory/allocator/ledger.hpp>
#include <headroom/memory/allocator/quick_cache.hpp>
#include <headroom/memory/allocator/spin_lock.hpp>
#include <headroom/memory/allocator/stream_log.hpp>

namespace headroom::memory {

struct alignas(64) Shard {
    Shard(Driver& driver, StreamId id) : stream(id), log(driver, id) {}

    SpinLock lock;
    const StreamId stream;
    bool records = false;  ///< there are other streams: an event is recorded when a block is given back
    Ledger ledger;
    QuickCache cache;
    StreamLog log;
    std::array<Ticket, 64> seen{};  ///< by other stream: the last ticket that this one waited for
};

}  // namespace headroom::memory
