#pragma once
// The events recorded on one stream, by ticket. Their number is limited: at the limit every second one is dropped, and
// a wait for a dropped one is for the next. Internal to memory/; guarded by its stream's lock.
//
//     memory::StreamLog log(driver, stream);
//     memory::Ticket ticket = log.record();           // at a free
//     const memory::StreamLog::Entry* entry = log.find(ticket);   // the event to wait for
#include <array>
#include <cstddef>

#include <headroom/memory/allocator/pending.hpp>
#include <headroom/memory/driver.hpp>

namespace headroom::memory {

class StreamLog {
  public:
    struct Entry {
        Ticket ticket = 0;
        EventHandle event = 0;
    };

    StreamLog(Driver& driver, StreamId stream) : driver_(driver), stream_(stream) {}
    ~StreamLog();
    StreamLog(const StreamLog&) = delete;
    StreamLog& operator=(const StreamLog&) = delete;

    /// Records an event now. Errors: DeviceError; nothing has changed.
    Ticket record();
    /// As `record`; if the driver fails, as `next`.
    Ticket try_record() noexcept;
    /// The ticket of an event that is recorded only when something waits for it.
    Ticket next() noexcept {
        promised_ = true;
        return last_ + 1;
    }
    /// The first event that covers the ticket; for 0, and where there is none, one that is recorded now.
    /// Errors: DeviceError.
    Entry find(Ticket ticket);
    /// As `find`, but null where an event would have to be recorded.
    const Entry* recorded(Ticket ticket) const noexcept;

  private:
    void thin() noexcept;

    Driver& driver_;
    StreamId stream_;
    Ticket last_ = 0;
    std::array<Entry, 64> entries_{};  ///< ascending
    std::size_t count_ = 0;
    bool promised_ = false;  ///< the ticket of the next event was given out
};

}  // namespace headroom::memory
