#include <headroom/data/data_loader.hpp>

#include <algorithm>

#include <fmt/format.h>
#include <headroom/core/state_counter.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr int kMaxWorkers = 1024;
constexpr int kMaxPrefetch = 1 << 20;

template <class T>
void check_same(const char* what, const T& saved, const T& here) {
    if (saved != here)
        throw Error(
            fmt::format("the saved position is of {} {}, but this loader has {}; resume with the same data and "
                        "settings",
                        what, saved, here));
}

}  // namespace

void throw_no_batch() {
    throw Error(
        "loader: the epoch has ended, so that next() returned no batch; look whether there is one, or draw with "
        "Sampler::with_replacement, whose epochs need not end");
}

void throw_loader_moved() { throw Error("loader: it was moved from, and has no batches"); }

DataLoaderCursor::DataLoaderCursor(Sampler sampler, DataLoaderOptions options)
    : sampler_(std::move(sampler)), options_(options) {
    if (options.workers < 0 || options.workers > kMaxWorkers)
        throw Error(fmt::format("loader: {} workers are outside of 0 to {}", options.workers, kMaxWorkers));
    if (options.prefetch < 1 || options.prefetch > kMaxPrefetch)
        throw Error(
            fmt::format("loader: {} prefetched batches are outside of 1 to {}", options.prefetch, kMaxPrefetch));
    if (options.epochs < 1) throw Error(fmt::format("loader: {} epochs can't be; use 1 or more", options.epochs));
}

void DataLoaderCursor::check_dataset(std::int64_t samples) const {
    if (sampler_.samples() > samples)
        throw Error(fmt::format("loader: the sampler chooses from {} samples, but the dataset has {}",
                                sampler_.samples(), samples));
}

DataLoaderCursor::Next DataLoaderCursor::peek() const {
    if (epoch_ >= options_.epochs) return Next::end;
    return batch_ == sampler_.batches() ? Next::end_of_epoch : Next::batch;
}

std::int64_t DataLoaderCursor::task() const { return epoch_ * sampler_.batches() + batch_; }

std::int64_t DataLoaderCursor::end_task() const {
    std::int64_t end = 0;
    return __builtin_mul_overflow(options_.epochs, sampler_.batches(), &end) ? Sampler::kEndless : end;
}

void DataLoaderCursor::advance() {
    switch (peek()) {
        case Next::batch:
            ++batch_;
            return;
        case Next::end_of_epoch:
            ++epoch_;
            batch_ = 0;
            return;
        case Next::end:
            return;
    }
}

void DataLoaderCursor::indices(std::int64_t task, std::vector<std::int64_t>& out) const {
    sampler_.indices(task / sampler_.batches(), task % sampler_.batches(), out);
}

std::uint64_t DataLoaderCursor::first_draw(std::int64_t task) const {
    return sampler_.first_draw(task / sampler_.batches(), task % sampler_.batches());
}

DataLoaderState DataLoaderCursor::state() const {
    return {epoch_,
            batch_,
            fmt::format("{}{}", sample_order_name(sampler_.order()), sampler_.last_alone() ? ", the last alone" : ""),
            sampler_.seed(),
            sampler_.samples(),
            sampler_.batch(),
            sampler_.batches()};
}

void DataLoaderCursor::restore(const DataLoaderState& saved) {
    const DataLoaderState here = state();
    check_same("order", saved.order, here.order);
    check_same("seed", saved.seed, here.seed);
    check_same("batch size", saved.batch_size, here.batch_size);
    if (!options_.changed_data) {
        check_same("number of samples", saved.samples, here.samples);
        check_same("batches per epoch", saved.batches_per_epoch, here.batches_per_epoch);
    }
    std::int64_t first_task = 0;
    const std::int64_t batch = options_.changed_data ? std::min(saved.batch, sampler_.batches()) : saved.batch;
    const bool ended = saved.epoch == options_.epochs && batch == 0;
    if (saved.epoch < 0 || batch < 0 || batch > sampler_.batches() || (saved.epoch >= options_.epochs && !ended) ||
        (!ended && (__builtin_mul_overflow(saved.epoch, sampler_.batches(), &first_task) ||
                    __builtin_add_overflow(first_task, sampler_.batches(), &first_task))))
        throw Error(
            fmt::format("the saved position, batch {} of epoch {}, is outside of the data: {} batches per epoch, "
                        "{} epochs",
                        saved.batch, saved.epoch, sampler_.batches(), options_.epochs));
    epoch_ = saved.epoch;
    batch_ = batch;
}

StateDict DataLoaderCursor::state_dict() const {
    const DataLoaderState here = state();
    return {{},
            {{"loader.epoch", fmt::to_string(here.epoch)},
             {"loader.batch", fmt::to_string(here.batch)},
             {"loader.order", here.order},
             {"loader.seed", fmt::to_string(here.seed)},
             {"loader.samples", fmt::to_string(here.samples)},
             {"loader.batch_size", fmt::to_string(here.batch_size)},
             {"loader.batches_per_epoch", fmt::to_string(here.batches_per_epoch)}}};
}

void DataLoaderCursor::restore(const StateValues& values) {
    const auto number = [&](const char* name) { return state_value<std::int64_t>(values, name); };
    restore({.epoch = state_counter(values, "loader.epoch"),
             .batch = state_counter(values, "loader.batch"),
             .order = state_value<std::string>(values, "loader.order"),
             .seed = state_value<std::uint64_t>(values, "loader.seed"),
             .samples = number("loader.samples"),
             .batch_size = number("loader.batch_size"),
             .batches_per_epoch = number("loader.batches_per_epoch")});
}

}  // namespace headroom::data
