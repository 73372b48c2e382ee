#include <headroom/data/data_loader.hpp>

#include <algorithm>

#include <fmt/format.h>
#include <headroom/core/state_counter.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/progress.hpp>

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
        "loader: next() returned no batch because the epoch has ended; check for a batch, or draw with "
        "Sampler::with_replacement, whose epochs need not end");
}

void throw_loader_moved() { throw Error("loader: it has no batches since it was moved from"); }

DataLoaderCursor::DataLoaderCursor(Sampler sampler, DataLoaderOptions options)
    : sampler_(std::move(sampler)), options_(options) {
    if (options.workers < 0 || options.workers > kMaxWorkers)
        throw Error(fmt::format("loader: {} workers are outside of 0 to {}", options.workers, kMaxWorkers));
    if (options.prefetch < 1 || options.prefetch > kMaxPrefetch)
        throw Error(
            fmt::format("loader: {} prefetched batches are outside of 1 to {}", options.prefetch, kMaxPrefetch));
    if (options.epochs < 1) throw Error(fmt::format("loader: epochs must be at least 1, got {}", options.epochs));
}

void DataLoaderCursor::check_dataset(std::int64_t samples) const {
    if (sampler_.samples() > samples)
        throw Error(fmt::format("loader: the sampler chooses from {} samples, but the dataset has {}",
                                sampler_.samples(), samples));
}

void DataLoaderCursor::divide(const DataShard& share) {
    if (in_step_ != share_.rank) throw Error("loader: divide must be called between steps, not within one");
    if (share.rank < 0 || share.rank >= share.ranks)
        throw Error(fmt::format("loader: there is no rank {} of {}", share.rank, share.ranks));
    if (share.step < share.ranks)
        throw Error(fmt::format("loader: a step of {} batches is too small for {} ranks", share.step, share.ranks));
    const DataLoaderState here = state();
    share_ = share;
    in_step_ = share.rank;
    epoch_ = here.epoch;
    batch_ = here.batch + share.rank;
}

DataLoaderCursor::Next DataLoaderCursor::peek() const {
    if (epoch_ >= options_.epochs) return Next::end;
    return batch_ >= sampler_.batches() ? Next::end_of_epoch : Next::batch;
}

std::int64_t DataLoaderCursor::task(std::int64_t place) const {
    const std::int64_t step = epoch_ * sampler_.batches() + batch_ - in_step_;  // the number of its first batch
    const std::int64_t steps = place / step_batches(), round = place % step_batches();
    return step + steps * share_.step + round * share_.ranks + share_.rank;
}

std::int64_t DataLoaderCursor::end_place() const {
    std::int64_t end = 0;
    if (__builtin_mul_overflow(options_.epochs, sampler_.batches(), &end)) return Sampler::kEndless;
    const std::int64_t left = std::max<std::int64_t>(0, end - (task() - in_step_));
    return left / share_.step * step_batches() + round_robin_count(share_.rank, share_.ranks, left % share_.step);
}

void DataLoaderCursor::advance() {
    memory::step_forward();
    switch (peek()) {
        case Next::batch: {
            const std::int64_t next = in_step_ + share_.ranks;
            const bool ends = next >= share_.step;
            batch_ += ends ? share_.step - in_step_ + share_.rank : share_.ranks;
            in_step_ = ends ? share_.rank : next;
            return;
        }
        case Next::end_of_epoch:
            ++epoch_;
            batch_ -= sampler_.batches();
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
    if (in_step_ != share_.rank) throw Error("loader: with several ranks, the position is only defined between steps");
    std::int64_t epoch = epoch_, batch = batch_ - share_.rank;
    for (; batch > sampler_.batches(); batch -= sampler_.batches()) ++epoch;
    for (; batch < 0; batch += sampler_.batches()) --epoch;
    return position(epoch, batch);
}

void DataLoaderCursor::rewind() {
    epoch_ = 0;
    batch_ = in_step_ = share_.rank;
}

DataLoaderState DataLoaderCursor::position(std::int64_t epoch, std::int64_t batch) const {
    return {epoch,
            batch,
            fmt::format("{}{}", sample_order_name(sampler_.order()), sampler_.last_alone() ? ", the last alone" : ""),
            sampler_.seed(),
            sampler_.samples(),
            sampler_.batch(),
            sampler_.batches()};
}

void DataLoaderCursor::restore(const DataLoaderState& saved) {
    const DataLoaderState here = position(0, 0);
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
    batch_ = batch + share_.rank;
    in_step_ = share_.rank;
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
