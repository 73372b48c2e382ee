#include <headroom/data/prefetcher.hpp>

#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <headroom/memory/error.hpp>

namespace headroom::data {

Prefetcher::Prefetcher(PrefetchOptions options, Fill fill)
    : options_(options),
      fill_(std::move(fill)),
      next_to_begin_(options.first_task),
      next_to_return_(options.first_task),
      given_back_(options.first_task) {
    if (options.workers < 1 || options.slots < 2)
        throw Error(fmt::format("prefetching needs at least 1 worker and 2 slots, got {} and {}", options.workers,
                                options.slots));
    slots_.resize(static_cast<std::size_t>(options.slots));
    workers_.reserve(static_cast<std::size_t>(options.workers));
    try {
        for (int i = 0; i < options.workers; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
        stop();
        throw Error(fmt::format("can't start thread {} of {} for loading data ({}); use fewer workers",
                                workers_.size() + 1, options.workers, error.what()));
    }
}

Prefetcher::~Prefetcher() { stop(); }

void Prefetcher::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    slot_free_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

bool Prefetcher::may_begin() const {
    return next_to_begin_ < options_.end_task && next_to_begin_ - given_back_ < options_.slots;
}

void Prefetcher::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        slot_free_.wait(lock, [&] { return stopping_ || may_begin(); });
        if (stopping_) return;
        const std::int64_t task = next_to_begin_++;
        const auto slot = static_cast<std::size_t>(task % options_.slots);
        lock.unlock();
        std::exception_ptr error;
        try {
            fill_(task, static_cast<int>(slot));
        } catch (...) {
            error = std::current_exception();
        }
        lock.lock();
        slots_[slot] = {true, std::move(error)};
        slot_ready_.notify_one();
    }
}

int Prefetcher::next() {
    std::unique_lock lock(mutex_);
    if (next_to_return_ >= options_.end_task)
        throw Error(fmt::format("there is no task {}; the last one was returned", next_to_return_));
    given_back_ = next_to_return_;
    slot_free_.notify_one();
    Slot& slot = slots_[static_cast<std::size_t>(next_to_return_ % options_.slots)];
    slot_ready_.wait(lock, [&] { return slot.ready; });
    slot.ready = false;
    if (slot.error) std::rethrow_exception(std::exchange(slot.error, nullptr));
    return static_cast<int>(next_to_return_++ % options_.slots);
}

}  // namespace headroom::data
