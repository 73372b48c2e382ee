#pragma once
// The events recorded on one stream, by ticket. Their number is limited: at the limit every second one is dropped,
// and a wait for a dropped one is for the next. Has a lock of its own, which is held while the driver records: a
// thread that has a shard's lock may call `next` alone.
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

    /// Records an event now. If the driver fails or the stream is captured, as `next`.
    Ticket try_record() noexcept;
    /// The ticket of an event that is recorded only when something waits for it. Takes no lock.
    Ticket next() noexcept;
    /// Of the last event that was recorded or promised.
    Ticket newest() const noexcept { return std::max(last_.load(), promised_.load()); }
    /// False while the event that the ticket needs is not recorded and can't be, because the stream is captured.
    bool waitable(Ticket ticket);
    /// The first event that covers the ticket; for 0, and where there is none, one that is recorded now. It stays until
    /// it is released as often as held, whatever is recorded meanwhile. Errors: DeviceError, also if it is not
    /// waitable.
    Entry hold(Ticket ticket);
    void release(const Entry& held) noexcept;
    /// True if the event that covers the ticket was recorded and has passed. Errors: DeviceError.
    bool passed(Ticket ticket);

  private:
    bool record();
    Entry* recorded(Ticket ticket) noexcept;
    void thin() noexcept;

    Driver& driver_;
    const StreamId stream_;
    std::atomic<Ticket> last_{0};      ///< of the events, recorded or under way
    std::atomic<Ticket> promised_{0};  ///< the last one that `next` gave out
    std::mutex mutex_;
    std::array<Entry, 64> entries_{};  ///< ascending
    std::size_t count_ = 0;
};

}  // namespace headroom::memory
