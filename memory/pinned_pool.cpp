#include <headroom/memory/pinned_pool.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <limits>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace headroom::memory {

namespace {

constexpr std::size_t kSmallest = 4096;
constexpr std::size_t kClasses = 40;  // up to 2 PiB

/// The number of the smallest size class that holds so much; kClasses if none does.
std::size_t class_of(std::size_t bytes) {
    const auto index = static_cast<std::size_t>(std::bit_width((std::max(bytes, kSmallest) - 1) / kSmallest));
    return std::min(index, kClasses);
}

constexpr std::size_t size_of(std::size_t index) { return kSmallest << index; }

}  // namespace

/// A block in one of the pool's lists. It moves between them without allocation, so that giving it back can't fail.
struct PinnedBlock::Record {
    std::byte* data = nullptr;
    std::size_t index = 0;  ///< of its size class
    std::size_t requested = 0;
    std::vector<StreamId> streams;    ///< that use it, and have no event for that yet
    std::vector<EventHandle> events;  ///< that have not passed; has room for one per stream
    std::list<Record>::iterator here;
};

/// The pool's state, which blocks in use keep alive.
class PinnedBlock::Shared {
  public:
    Shared(std::unique_ptr<Driver> driver, PinnedPoolOptions options) : driver_(std::move(driver)), options_(options) {}
    ~Shared();

    Record* allocate(std::size_t bytes);
    void give_back(Record& record) noexcept;
    std::size_t trim();
    PinnedStatistics statistics() const;
    void reset_peak();

  private:
    using Records = std::list<Record>;

    using Lock = std::lock_guard<std::mutex>;

    // For holders of `mutex_`.
    bool take_cached(std::size_t index);
    Record* hand_out(std::size_t bytes);
    // For holders of `slow_`.
    Record* take_new(std::size_t index, std::size_t bytes);
    void collect(std::size_t index);
    void record(Record& record);
    void settle(Records& taken, Record& record);
    template <class Visit>
    void with_pending(std::size_t index, Visit&& visit);
    bool wait_in(std::size_t index);
    bool wait_for_one(std::size_t index);
    std::size_t unlock(std::size_t bytes);
    void abandon(Records& list) noexcept;
    MemoryReport report(std::size_t bytes, std::size_t index) const;
    [[noreturn]] void fail(std::size_t bytes, std::size_t index) const;

    const std::unique_ptr<Driver> driver_;
    const PinnedPoolOptions options_;
    /// Held while the driver is called, which may take long; taken before `mutex_`. A request that finds a cached block
    /// does not take it.
    std::mutex slow_;
    mutable std::mutex mutex_;  ///< guards what follows
    Records live_;              ///< the newest in front; empty when the last block is gone
    std::array<Records, kClasses> cached_;
    std::array<Records, kClasses> pending_;  ///< the oldest in front
    PinnedStatistics statistics_;
};

PinnedBlock::Shared::~Shared() {
    try {
        trim();
    } catch (const Error&) {  // the device fails: what is left goes regardless
    }
    for (Records& list : pending_) abandon(list);
    for (Records& list : cached_) abandon(list);
}

void PinnedBlock::Shared::abandon(Records& list) noexcept {
    for (const Record& record : list) {
        for (const EventHandle event : record.events) driver_->destroy_event(event);
        driver_->free_pinned(record.data, size_of(record.index));
    }
}

PinnedBlock::Record* PinnedBlock::Shared::allocate(std::size_t bytes) {
    const std::size_t index = class_of(bytes);
    const auto cached = [&]() -> Record* {
        const Lock lock(mutex_);
        const bool too_large =
            index == kClasses || (options_.limit && statistics_.live + size_of(index) > options_.limit);
        if (too_large) fail(bytes, index);
        return take_cached(index) ? hand_out(bytes) : nullptr;
    };
    if (Record* record = cached()) return record;
    const Lock slow(slow_);
    collect(index);
    while (true) {
        if (Record* record = cached()) return record;
        if (Record* record = take_new(index, bytes)) return record;
        // Every round gives something back or has one block less to wait for.
        if (unlock(size_of(index)) || wait_for_one(index)) continue;
        const Lock lock(mutex_);
        fail(bytes, index);
    }
}

bool PinnedBlock::Shared::take_cached(std::size_t index) {
    if (cached_[index].empty()) return false;
    statistics_.cached -= size_of(index);
    live_.splice(live_.begin(), cached_[index], cached_[index].begin());
    return true;
}

PinnedBlock::Record* PinnedBlock::Shared::take_new(std::size_t index, std::size_t bytes) {
    const std::size_t size = size_of(index);
    Records fresh(1);
    fresh.front().index = index;
    fresh.front().here = fresh.begin();
    {
        const Lock lock(mutex_);
        if (options_.limit && statistics_.held() + size > options_.limit) return nullptr;
        ++statistics_.driver_calls;
    }
    fresh.front().data = driver_->allocate_pinned(size);
    if (!fresh.front().data) return nullptr;
    const Lock lock(mutex_);
    live_.splice(live_.begin(), fresh);
    return hand_out(bytes);
}

PinnedBlock::Record* PinnedBlock::Shared::hand_out(std::size_t bytes) {
    Record& record = live_.front();
    record.requested = bytes;
    ++statistics_.allocations;
    statistics_.live += size_of(record.index);
    statistics_.peak_live = std::max(statistics_.peak_live, statistics_.live);
    statistics_.peak_held = std::max(statistics_.peak_held, statistics_.held());
    return &record;
}

/// Replaces streams that use the block by events; those whose event can't be recorded now stay, to be tried again.
void PinnedBlock::Shared::record(Record& record) {
    for (auto next = record.streams.begin(); next != record.streams.end();) {
        const EventHandle event = driver_->record(*next);
        if (event) record.events.push_back(event);
        next = event ? record.streams.erase(next) : next + 1;
    }
}

void PinnedBlock::Shared::give_back(Record& record) noexcept {
    if (driver_->properties().synchronous) record.streams.clear();
    try {
        this->record(record);
    } catch (const Error&) {
    }
    const std::size_t size = size_of(record.index);
    const bool free = record.events.empty() && record.streams.empty();
    const Lock lock(mutex_);
    Records& list = free ? cached_[record.index] : pending_[record.index];
    list.splice(free ? list.begin() : list.end(), live_, record.here);
    statistics_.live -= size;
    (free ? statistics_.cached : statistics_.pending) += size;
}

/// Forgets the events of the block, one of `taken`, that have passed; without events it is free, and leaves the list.
void PinnedBlock::Shared::settle(Records& taken, Record& record) {
    while (!record.events.empty() && driver_->passed(record.events.back())) {
        driver_->destroy_event(record.events.back());
        record.events.pop_back();
    }
    if (!record.events.empty() || !record.streams.empty()) return;
    const Lock lock(mutex_);
    statistics_.pending -= size_of(record.index);
    statistics_.cached += size_of(record.index);
    cached_[record.index].splice(cached_[record.index].begin(), taken, record.here);
}

/// Takes the pending blocks of the class out while `visit(taken)` runs; those that are left are pending again.
template <class Visit>
void PinnedBlock::Shared::with_pending(std::size_t index, Visit&& visit) {
    Records taken;
    {
        const Lock lock(mutex_);
        taken.swap(pending_[index]);
    }
    const auto put_back = [&] {
        const Lock lock(mutex_);
        pending_[index].splice(pending_[index].begin(), taken);
    };
    try {
        visit(taken);
    } catch (...) {
        put_back();
        throw;
    }
    put_back();
}

/// Finds out which pending blocks of the class are free.
void PinnedBlock::Shared::collect(std::size_t index) {
    with_pending(index, [&](Records& taken) {
        for (auto next = taken.begin(); next != taken.end();) {
            Record& record = *next++;
            this->record(record);
            settle(taken, record);
        }
    });
}

/// Waits for a pending block of the class, if there is one that no stream uses that is captured.
bool PinnedBlock::Shared::wait_in(std::size_t index) {
    bool waited = false;
    with_pending(index, [&](Records& taken) {
        for (Record& record : taken) {
            this->record(record);
            if (!record.streams.empty()) continue;
            for (const EventHandle event : record.events) driver_->synchronize(event);
            settle(taken, record);
            waited = true;
            return;
        }
    });
    return waited;
}

/// Waits for a pending block: of this class if there is one, else for a largest one.
bool PinnedBlock::Shared::wait_for_one(std::size_t index) {
    if (wait_in(index)) return true;
    for (std::size_t other = kClasses; other-- > 0;) {
        if (wait_in(other)) return true;
    }
    return false;
}

/// Gives cached blocks back to the driver, the largest first, until it is so much; bytes given back.
std::size_t PinnedBlock::Shared::unlock(std::size_t bytes) {
    std::size_t done = 0;
    for (std::size_t index = kClasses; index-- > 0;) {
        while (done < bytes) {
            Records one;
            {
                const Lock lock(mutex_);
                if (cached_[index].empty()) break;
                one.splice(one.begin(), cached_[index], std::prev(cached_[index].end()));
                ++statistics_.driver_calls;
            }
            driver_->free_pinned(one.front().data, size_of(index));
            const Lock lock(mutex_);
            statistics_.cached -= size_of(index);
            done += size_of(index);
        }
    }
    return done;
}

std::size_t PinnedBlock::Shared::trim() {
    const Lock slow(slow_);
    while (wait_for_one(0)) {
    }
    return unlock(std::numeric_limits<std::size_t>::max());
}

PinnedStatistics PinnedBlock::Shared::statistics() const {
    const Lock lock(mutex_);
    return statistics_;
}

void PinnedBlock::Shared::reset_peak() {
    const Lock lock(mutex_);
    statistics_.peak_live = statistics_.live;
    statistics_.peak_held = statistics_.held();
}

MemoryReport PinnedBlock::Shared::report(std::size_t bytes, std::size_t index) const {
    MemoryReport report;
    report.device = fmt::format("page-locked host memory for {}", driver_->properties().name);
    report.requested = bytes;
    report.rounded = index < kClasses ? size_of(index) : bytes;
    report.limit = options_.limit;
    report.device_total = options_.limit ? options_.limit : statistics_.held();
    report.device_free = report.device_total - statistics_.held();
    report.statistics.allocated = statistics_.live;
    report.statistics.peak_allocated = statistics_.peak_live;
    report.statistics.reserved = statistics_.held();
    report.statistics.peak_reserved = statistics_.peak_held;
    report.statistics.allocations = statistics_.allocations;
    report.statistics.driver_calls = statistics_.driver_calls;
    report.pending = statistics_.pending;
    report.cached = statistics_.cached;
    report.advice = "use fewer or smaller staging buffers, free them earlier";
    if (options_.limit) report.advice += ", raise the limit";
    return report;
}

void PinnedBlock::Shared::fail(std::size_t bytes, std::size_t index) const {
    MemoryReport figures = report(bytes, index);
    const std::string reason = options_.limit ? "do not fit into the limit of " + format_bytes(options_.limit)
                                              : std::string("were refused by the driver");
    const std::string line = fmt::format("out of memory: {} ({} rounded up) of {} {}, with {} in use; {}",
                                         format_bytes(bytes), format_bytes(figures.rounded), figures.device, reason,
                                         format_bytes(statistics_.live), figures.advice);
    throw OutOfMemory(line, std::move(figures));
}

PinnedBlock::PinnedBlock(std::shared_ptr<Shared> pool, Record* record) noexcept
    : pool_(std::move(pool)), record_(record) {}

PinnedBlock::PinnedBlock(PinnedBlock&& other) noexcept
    : pool_(std::move(other.pool_)), record_(std::exchange(other.record_, nullptr)) {}

PinnedBlock& PinnedBlock::operator=(PinnedBlock&& other) noexcept {
    if (this != &other) {
        reset();
        pool_ = std::move(other.pool_);
        record_ = std::exchange(other.record_, nullptr);
    }
    return *this;
}

std::byte* PinnedBlock::data() const noexcept { return record_ ? record_->data : nullptr; }

std::size_t PinnedBlock::bytes() const noexcept { return record_ ? record_->requested : 0; }

void PinnedBlock::record_use(StreamId stream) {
    if (!record_) throw Error("record_use: this PinnedBlock holds no memory; it was freed or moved from");
    std::vector<StreamId>& streams = record_->streams;
    if (std::find(streams.begin(), streams.end(), stream) != streams.end()) return;
    record_->events.reserve(streams.size() + 1);
    streams.push_back(stream);
}

void PinnedBlock::reset() noexcept {
    if (record_) pool_->give_back(*std::exchange(record_, nullptr));
    pool_.reset();
}

PinnedPool::PinnedPool(std::unique_ptr<Driver> driver, PinnedPoolOptions options)
    : shared_(std::make_shared<PinnedBlock::Shared>(std::move(driver), options)) {}

PinnedPool::~PinnedPool() = default;

PinnedBlock PinnedPool::allocate(std::size_t bytes) { return {shared_, shared_->allocate(bytes)}; }

std::size_t PinnedPool::trim() { return shared_->trim(); }

PinnedStatistics PinnedPool::statistics() const { return shared_->statistics(); }

void PinnedPool::reset_peak() { shared_->reset_peak(); }

}  // namespace headroom::memory
