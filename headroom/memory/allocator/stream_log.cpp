#include <headroom/memory/allocator/stream_log.hpp>

#include <algorithm>

namespace headroom::memory {

StreamLog::~StreamLog() {
    for (std::size_t i = 0; i < count_; ++i) driver_.destroy_event(entries_[i].event);
}

Ticket StreamLog::record() {
    if (count_ == entries_.size()) thin();
    entries_[count_] = {last_ + 1, driver_.record(stream_)};
    ++count_;
    promised_ = false;
    return ++last_;
}

Ticket StreamLog::try_record() noexcept {
    try {
        return record();
    } catch (...) {
        return next();
    }
}

StreamLog::Entry StreamLog::find(Ticket ticket) {
    if (const Entry* entry = recorded(ticket)) return *entry;
    record();
    return entries_[count_ - 1];
}

const StreamLog::Entry* StreamLog::recorded(Ticket ticket) const noexcept {
    if (ticket == 0 || count_ == 0) return nullptr;
    const Entry* const end = entries_.data() + count_;
    if (ticket == PendingSet::kNewest) return promised_ ? nullptr : end - 1;
    const Entry* const found = std::lower_bound(
        entries_.data(), end, ticket, [](const Entry& entry, Ticket wanted) { return entry.ticket < wanted; });
    return found != end ? found : nullptr;
}

void StreamLog::thin() noexcept {
    // The newest one stays: it covers all before it.
    for (std::size_t i = 0; i < count_; i += 2) driver_.destroy_event(entries_[i].event);
    count_ /= 2;
    for (std::size_t i = 0; i < count_; ++i) entries_[i] = entries_[2 * i + 1];
}

}  // namespace headroom::memory
