#pragma once
// The events recorded on one stream, by ticket. Their number is limited: at the limit every second event is dropped,
// and a wait for a dropped event waits for the next one. Has its own lock, held while the driver records: a thread that
// holds a shard's lock may call only `next`.
//
//     memory::StreamLog log(driver, stream);
//     memory::Ticket ticket = log.try_record();                    // at a free
//     memory::StreamLog::Entry entry = log.hold(ticket);           // the event to wait for
//     log.release(entry);
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include <headroom/memory/allocator/internal/pending.hpp>
#include <headroom/memory/driver.hpp>

namespace headroom::memory {

class StreamLog {
  public:
    struct Entry {
        Ticket ticket = 0;
        EventHandle event = 0;
        int holds = 0;
    };

    StreamLog(Driver& driver, StreamId stream) : driver_(driver), stream_(stream) {}
    ~StreamLog();
    StreamLog(const StreamLog&) = delete;
    StreamLog& operator=(const StreamLog&) = delete;

    /// Records an event now. If the driver fails or the stream is captured, acts as `next`.
    Ticket try_record() noexcept;
    /// Returns the ticket of an event that is recorded only when something waits for it. Takes no lock.
    Ticket next() noexcept;
    /// Ticket of the last event recorded or promised.
    Ticket newest() const noexcept { return std::max(last_.load(), promised_.load()); }
    /// False if the event for the ticket is not recorded yet and can't be, because the stream is captured.
    bool waitable(Ticket ticket);
    /// Returns the first event that covers the ticket; for 0, or if there is none, records one now. It stays until it
    /// has been released as often as held. Errors: DeviceError, also if the ticket is not waitable.
    Entry hold(Ticket ticket);
    void release(const Entry& held) noexcept;
    /// True if the event that covers the ticket has been recorded and has passed. Errors: DeviceError.
    bool passed(Ticket ticket);

  private:
    bool record();
    Entry* recorded(Ticket ticket) noexcept;
    void thin() noexcept;

    Driver& driver_;
    const StreamId stream_;
    std::atomic<Ticket> last_{0};      ///< of the events recorded or being recorded
    std::atomic<Ticket> promised_{0};  ///< the last ticket from `next`
    std::mutex mutex_;
    std::array<Entry, 64> entries_{};  ///< sorted by ticket
    std::size_t count_ = 0;
};

}  // namespace headroom::memory
