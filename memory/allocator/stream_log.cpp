#include <headroom/memory/allocator/internal/stream_log.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::memory {

StreamLog::~StreamLog() {
    for (std::size_t i = 0; i < count_; ++i) driver_.destroy_event(entries_[i].event);
}

/// False while the stream is captured, or every event is held. For holders of the lock. Errors: DeviceError.
bool StreamLog::record() {
    if (count_ == entries_.size()) thin();
    if (count_ == entries_.size()) return false;
    // The number is taken first, so that what is promised meanwhile belongs to a later event.
    const Ticket ticket = last_.load(std::memory_order_relaxed) + 1;
    last_.store(ticket);
    EventHandle event = 0;
    try {
        event = driver_.record(stream_);
    } catch (...) {
        last_.store(ticket - 1);
        throw;
    }
    if (!event) {
        last_.store(ticket - 1);
        return false;
    }
    entries_[count_++] = {ticket, event, 0};
    return true;
}

Ticket StreamLog::try_record() noexcept {
    const std::lock_guard guard(mutex_);
    try {
        if (record()) return entries_[count_ - 1].ticket;
    } catch (...) {
    }
    return next();
}

Ticket StreamLog::next() noexcept {
    const Ticket ticket = last_.load() + 1;
    Ticket promised = promised_.load();
    while (promised < ticket && !promised_.compare_exchange_weak(promised, ticket)) {
    }
    return ticket;
}

bool StreamLog::waitable(Ticket ticket) {
    {
        const std::lock_guard guard(mutex_);
        if (recorded(ticket)) return true;
    }
    return !driver_.capturing(stream_);
}

StreamLog::Entry StreamLog::hold(Ticket ticket) {
    const std::lock_guard guard(mutex_);
    Entry* entry = recorded(ticket);
    if (!entry) {
        if (!record()) {
            throw DeviceError(
                fmt::format("{}: memory freed on stream {} can't be reused while the stream is captured into a graph; "
                            "end the capture",
                            driver_.properties().name, stream_));
        }
        entry = &entries_[count_ - 1];
    }
    ++entry->holds;
    return *entry;
}

void StreamLog::release(const Entry& held) noexcept {
    const std::lock_guard guard(mutex_);
    --recorded(held.ticket)->holds;
}

bool StreamLog::passed(Ticket ticket) {
    const std::lock_guard guard(mutex_);
    const Entry* entry = recorded(ticket);
    return entry && driver_.passed(entry->event);
}

StreamLog::Entry* StreamLog::recorded(Ticket ticket) noexcept {
    if (ticket == 0 || count_ == 0) return nullptr;
    Entry* const end = entries_.data() + count_;
    if (ticket == PendingSet::kNewest) return promised_.load() > end[-1].ticket ? nullptr : end - 1;
    Entry* const found = std::lower_bound(entries_.data(), end, ticket,
                                          [](const Entry& entry, Ticket wanted) { return entry.ticket < wanted; });
    return found != end ? found : nullptr;
}

void StreamLog::thin() noexcept {
    // The newest one stays: it covers all before it.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
        if (i % 2 == 1 || entries_[i].holds > 0) {
            entries_[kept++] = entries_[i];
        } else {
            driver_.destroy_event(entries_[i].event);
        }
    }
    count_ = kept;
}

}  // namespace headroom::memory
