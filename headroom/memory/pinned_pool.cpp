#include <headroom/memory/pinned_pool.hpp>

#include <algorithm>
#include <array>
#include <bit>
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
    std::vector<StreamId> streams;    ///< that use it
    std::vector<EventHandle> events;  ///< that have not passed; has room for one per stream
    bool lost = false;                ///< an event could not be recorded: nobody knows when it is free
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

    bool take_cached(std::size_t index);
    bool take_new(std::size_t index);
    void collect(std::size_t index);
    void settle(Record& record);
    bool wait_for_one(std::size_t index);
    std::size_t unlock(std::size_t bytes);
    Record* hand_out(std::size_t bytes);
    void abandon(Records& list) noexcept;
    MemoryReport report(std::size_t bytes, std::size_t index) const;
    [[noreturn]] void fail(std::size_t bytes, std::size_t index) const;

    const std::unique_ptr<Driver> driver_;
    const PinnedPoolOptions options_;
    mutable std::mutex mutex_;
    Records live_;  ///< the newest in front; empty when the last block is gone
    std::array<Records, kClasses> cached_;
    std::array<Records, kClasses> pending_;  ///< the oldest in front
    Records lost_;
    PinnedStatistics statistics_;
};

PinnedBlock::Shared::~Shared() {
    try {
        trim();
    } catch (const Error&) {  // the device fails: what is left goes regardless
    }
    for (Records& list : pending_) abandon(list);
    for (Records& list : cached_) abandon(list);
    abandon(lost_);
}

void PinnedBlock::Shared::abandon(Records& list) noexcept {
    for (const Record& record : list) {
        for (const EventHandle event : record.events) driver_->destroy_event(event);
        driver_->free_pinned(record.data, size_of(record.index));
    }
}

PinnedBlock::Record* PinnedBlock::Shared::allocate(std::size_t bytes) {
    const std::size_t index = class_of(bytes);
    const std::lock_guard lock(mutex_);
    if (index == kClasses || (options_.limit && statistics_.live + size_of(index) > options_.limit)) fail(bytes, index);
    if (take_cached(index)) return hand_out(bytes);
    collect(index);
    while (!take_cached(index) && !take_new(index)) {
        // Every round gives something back or has one block less to wait for.
        if (!unlock(size_of(index)) && !wait_for_one(index)) fail(bytes, index);
    }
    return hand_out(bytes);
}

bool PinnedBlock::Shared::take_cached(std::size_t index) {
    if (cached_[index].empty()) return false;
    statistics_.cached -= size_of(index);
    live_.splice(live_.begin(), cached_[index], cached_[index].begin());
    return true;
}

bool PinnedBlock::Shared::take_new(std::size_t index) {
    const std::size_t size = size_of(index);
    if (options_.limit && statistics_.held() + size > options_.limit) return false;
    Records fresh(1);
    fresh.front().index = index;
    fresh.front().here = fresh.begin();
    ++statistics_.driver_calls;
    fresh.front().data = driver_->allocate_pinned(size);
    if (!fresh.front().data) return false;
    live_.splice(live_.begin(), fresh);
    return true;
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

void PinnedBlock::Shared::give_back(Record& record) noexcept {
    const std::lock_guard lock(mutex_);
    if (!driver_->properties().synchronous) {
        for (const StreamId stream : record.streams) {
            try {
                record.events.push_back(driver_->record(stream));
            } catch (const Error&) {
                record.lost = true;
            }
        }
    }
    record.streams.clear();
    const std::size_t size = size_of(record.index);
    const bool free = record.events.empty() && !record.lost;
    Records& list = record.lost ? lost_ : free ? cached_[record.index] : pending_[record.index];
    list.splice(free ? list.begin() : list.end(), live_, record.here);
    statistics_.live -= size;
    (free ? statistics_.cached : statistics_.pending) += size;
}

/// Forgets the events that have passed; a block without events is free.
void PinnedBlock::Shared::settle(Record& record) {
    while (!record.events.empty() && driver_->passed(record.events.back())) {
        driver_->destroy_event(record.events.back());
        record.events.pop_back();
    }
    if (!record.events.empty()) return;
    statistics_.pending -= size_of(record.index);
    statistics_.cached += size_of(record.index);
    cached_[record.index].splice(cached_[record.index].begin(), pending_[record.index], record.here);
}

/// Finds out which pending blocks of the class are free.
void PinnedBlock::Shared::collect(std::size_t index) {
    for (auto next = pending_[index].begin(); next != pending_[index].end();) settle(*next++);
}

/// Waits for a pending block: of this class if there is one, else for a largest one. False if none is pending.
bool PinnedBlock::Shared::wait_for_one(std::size_t index) {
    for (std::size_t other = kClasses; pending_[index].empty() && other-- > 0;) {
        if (!pending_[other].empty()) index = other;
    }
    if (pending_[index].empty()) return false;
    Record& record = pending_[index].front();
    for (const EventHandle event : record.events) driver_->synchronize(event);
    settle(record);
    return true;
}

/// Gives cached blocks back to the driver, the largest first, until it is so much; bytes given back.
std::size_t PinnedBlock::Shared::unlock(std::size_t bytes) {
    std::size_t done = 0;
    for (std::size_t index = kClasses; index-- > 0;) {
        while (done < bytes && !cached_[index].empty()) {
            ++statistics_.driver_calls;
            driver_->free_pinned(cached_[index].back().data, size_of(index));
            cached_[index].pop_back();
            statistics_.cached -= size_of(index);
            done += size_of(index);
        }
    }
    return done;
}

std::size_t PinnedBlock::Shared::trim() {
    const std::lock_guard lock(mutex_);
    while (wait_for_one(0)) {
    }
    return unlock(statistics_.cached);
}

PinnedStatistics PinnedBlock::Shared::statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
}

void PinnedBlock::Shared::reset_peak() {
    const std::lock_guard lock(mutex_);
    statistics_.peak_live = statistics_.live;
    statistics_.peak_held = statistics_.held();
}

MemoryReport PinnedBlock::Shared::report(std::size_t bytes, std::size_t index) const {
    MemoryReport report;
    report.device = fmt::format("page-locked host memory for {}", driver_->properties().name);
    report.requested = bytes;
    report.rounded = index < kClasses ? size_of(index) : bytes;
    report.tag.category = Category::inputs;
    report.limit = options_.limit;
    report.device_total = options_.limit ? options_.limit : statistics_.held();
    report.device_free = report.device_total - statistics_.held();
    report.statistics.allocated = statistics_.live;
    report.statistics.allocated_by_category[static_cast<std::size_t>(Category::inputs)] = statistics_.live;
    report.statistics.peak_allocated = statistics_.peak_live;
    report.statistics.reserved = statistics_.held();
    report.statistics.peak_reserved = statistics_.peak_held;
    report.statistics.allocations = statistics_.allocations;
    report.statistics.driver_calls = statistics_.driver_calls;
    report.pending = statistics_.pending;
    report.cached = statistics_.cached;
    report.advice = "use fewer or smaller staging buffers, give them back earlier";
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
    if (!record_) throw Error("record_use: this PinnedBlock holds no memory; it was given back or moved from");
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
