#pragma once
// Reads a dataset's batches ahead on threads. The batches and their order do not depend on the number of workers and
// are the same after `restore`. With 0 workers `next` reads them itself, which suits data in memory that is cheap to
// gather.
//
//     data::DataLoader loader(dataset, data::Sampler::shuffled(dataset.size(), 64, seed), {.workers = 2});
//     for (int epoch = 0; epoch < 10; ++epoch) {
//         while (const auto batch = loader.next()) step(*batch);  // no batch: the epoch has ended
//     }
//     data::DataLoaderState here = loader.state();  // later loader.restore(here)
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/round_robin.hpp>
#include <headroom/core/state_dict.hpp>
#include <headroom/data/dataset.hpp>
#include <headroom/data/prefetcher.hpp>
#include <headroom/data/sampler.hpp>

namespace headroom::data {

struct DataLoaderOptions {
    /// The number of reader threads; with 0, `next` reads.
    int workers = 0;
    /// The number of batches read ahead of the one in use.
    int prefetch = 4;
    /// The number of epochs; after the last one `next` always returns nullptr.
    std::int64_t epochs = Sampler::kEndless;
    /// Lets `restore` accept a position with a different number of samples, after samples were added or removed. It
    /// continues at the same batch of the same epoch, or at the end of that epoch.
    bool changed_data = false;
};

/// The position of a loader: the next batch is number `batch` of `epoch`. The other fields describe the order of the
/// data, which must match when it is restored.
struct DataLoaderState {
    std::int64_t epoch = 0;
    std::int64_t batch = 0;
    std::string order;
    std::uint64_t seed = 0;
    std::int64_t samples = 0;
    std::int64_t batch_size = 0;
    std::int64_t batches_per_epoch = 0;

    bool operator==(const DataLoaderState&) const = default;
};

/// One rank's share of a loader's batches. Of every `step` batches, rank r reads batches r, r + ranks, r + 2 ranks and
/// so on. The loader's position counts the batches of all ranks.
struct DataShard {
    int rank = 0, ranks = 1;
    std::int64_t step = 1;
};

[[noreturn]] void throw_no_batch();
[[noreturn]] void throw_loader_moved();

/// A loader's position in its sampler's batches, without threads or data.
class DataLoaderCursor {
  public:
    /// Errors: Error for options out of range.
    DataLoaderCursor(Sampler sampler, DataLoaderOptions options);

    /// Errors: Error if the sampler draws from more samples than there are.
    void check_dataset(std::int64_t samples) const;

    const Sampler& sampler() const { return sampler_; }
    const DataLoaderOptions& options() const { return options_; }
    /// Restricts the cursor to a rank's share. Errors: Error for a rank out of range, for a step with fewer batches
    /// than ranks, or within a step.
    void divide(const DataShard& share);

    enum class Next { batch, end_of_epoch, end };
    /// The kind of the next item: a batch, the end of an epoch, or the end of all epochs.
    Next peek() const;
    /// The number of the batch at this position, counted over all epochs.
    std::int64_t task() const { return task(place()); }
    /// Batch indices relative to the current step's first batch, counting this rank's batches only: the batch number of
    /// index `place`, the index of this position, and one past the last index (the largest number if there is no last).
    std::int64_t task(std::int64_t place) const;
    std::int64_t place() const { return (in_step_ - share_.rank) / share_.ranks; }
    std::int64_t end_place() const;
    /// Moves past whatever `peek` returns.
    void advance();

    /// The samples of batch number `task`. Thread-safe.
    void indices(std::int64_t task, std::vector<std::int64_t>& out) const;
    /// `Sampler::first_draw` of batch number `task`.
    std::uint64_t first_draw(std::int64_t task) const;

    /// Errors: Error within a step that ranks share.
    DataLoaderState state() const;
    /// Moves to `state`. Errors: Error if `state` belongs to another order of data, naming the difference, or is out of
    /// its range.
    void restore(const DataLoaderState& state);
    StateDict state_dict() const;
    void restore(const StateValues& values);
    void rewind();

  private:
    DataLoaderState position(std::int64_t epoch, std::int64_t batch) const;
    std::int64_t step_batches() const { return round_robin_count(share_.rank, share_.ranks, share_.step); }

    Sampler sampler_;
    DataLoaderOptions options_;
    DataShard share_;
    std::int64_t epoch_ = 0;
    std::int64_t batch_ = 0;    ///< past the epoch's last until the end of the epoch has been reported
    std::int64_t in_step_ = 0;  ///< number of the batch within its step
};

/// The batch that `DataLoader::next` returned, or none. Works like a pointer, but dereferencing a missing batch throws
/// Error.
template <class Batch>
class NextBatch {
  public:
    NextBatch(const Batch* batch) : batch_(batch) {}  // NOLINT(google-explicit-constructor)
    operator const Batch*() const { return batch_; }  // NOLINT(google-explicit-constructor)
    const Batch& operator*() const { return *checked(); }
    const Batch* operator->() const { return checked(); }

  private:
    const Batch* checked() const {
        if (!batch_) throw_no_batch();
        return batch_;
    }

    const Batch* batch_;
};

/// For use by one thread. The dataset must outlive the loader, and its samples must not change.
template <Dataset D>
class DataLoader {
  public:
    using Batch = typename D::Batch;

    /// Threads start at the first `next`. Errors: Error for options out of range, or if the sampler has more samples
    /// than the dataset.
    DataLoader(const D& dataset, Sampler sampler, DataLoaderOptions options = {})
        : dataset_(&dataset), cursor_(std::move(sampler), options) {
        cursor_.check_dataset(static_cast<std::int64_t>(dataset.size()));
        // The consumer holds one batch. On the heap, so that the threads' reference survives a move.
        ring_ = std::make_unique<std::vector<Slot>>(options.workers == 0 ? 1 : options.prefetch + 1);
    }
    DataLoader(const D&&, Sampler, DataLoaderOptions = {}) = delete;
    DataLoader(DataLoader&&) noexcept = default;
    DataLoader& operator=(DataLoader&&) = delete;

    /// The next batch, valid until the next call of a non-const member; none, once, at the end of each epoch. Rethrows
    /// the dataset's exception for this batch and keeps the position, so the next call retries the batch. Errors: Error
    /// for a moved-from loader.
    NextBatch<Batch> next() {
        if (!ring_) throw_loader_moved();
        if (cursor_.peek() != DataLoaderCursor::Next::batch) {
            cursor_.advance();
            return nullptr;
        }
        const auto begun = std::chrono::steady_clock::now();
        Slot& slot = (*ring_)[static_cast<std::size_t>(cursor_.options().workers == 0 ? fill_here() : take())];
        waited_ += std::chrono::steady_clock::now() - begun;
        cursor_.advance();
        return &slot.batch;
    }

    /// Seconds that `next` has spent waiting for batches or reading them: the caller's cost of loading.
    double seconds_waited() const { return waited_.count(); }

    /// Reads only this share's batches from the next batch on. Errors: as DataLoaderCursor::divide.
    void divide(const DataShard& share) {
        cursor_.divide(share);
        prefetcher_.reset();
    }

    /// The position after the batches that `next` has returned; batches read ahead do not count. Errors: Error within a
    /// step that ranks share.
    DataLoaderState state() const { return cursor_.state(); }

    /// Continues at `state`, which a loader with a different number of workers may have saved. Errors: Error if the
    /// sampler or, without `changed_data`, the number of samples differs; the loader is then unchanged.
    void restore(const DataLoaderState& state) {
        cursor_.restore(state);
        prefetcher_.reset();
    }

    /// The state for checkpoints: "loader.epoch" and so on.
    StateDict state_dict() const { return cursor_.state_dict(); }
    /// Errors: as `restore` of a state, or Error if a value is missing.
    void restore(const StateValues& values) {
        cursor_.restore(values);
        prefetcher_.reset();
    }

    /// Moves back to the first batch of the first epoch.
    void rewind() {
        cursor_.rewind();
        prefetcher_.reset();
    }

    const Sampler& sampler() const { return cursor_.sampler(); }

  private:
    struct Slot {
        Batch batch;
        std::vector<std::int64_t> indices;
    };

    static void fill(const D& dataset, const DataLoaderCursor& cursor, std::int64_t task, Slot& slot) {
        cursor.indices(task, slot.indices);
        const std::span<const std::int64_t> indices(slot.indices);
        if constexpr (RandomDataset<D>)
            dataset.read(indices, cursor.first_draw(task), slot.batch);
        else
            dataset.read(indices, slot.batch);
    }

    int fill_here() {
        fill(*dataset_, cursor_, cursor_.task(), ring_->front());
        return 0;
    }

    int take() {
        if (!prefetcher_) start();
        try {
            return prefetcher_->next();
        } catch (...) {
            prefetcher_.reset();
            throw;
        }
    }

    void start() {
        const PrefetchOptions options{cursor_.options().workers, static_cast<int>(ring_->size()), cursor_.place(),
                                      cursor_.end_place()};
        // The threads get their own cursor, since this one moves on.
        auto work = [dataset = dataset_, ring = ring_.get(), cursor = cursor_](std::int64_t place, int slot) {
            fill(*dataset, cursor, cursor.task(place), (*ring)[static_cast<std::size_t>(slot)]);
        };
        prefetcher_ = std::make_unique<Prefetcher>(options, std::move(work));
    }

    const D* dataset_;
    DataLoaderCursor cursor_;
    std::chrono::duration<double> waited_{0};
    std::unique_ptr<std::vector<Slot>> ring_;
    std::unique_ptr<Prefetcher> prefetcher_;  // last member: its threads end before the data that they use
};

}  // namespace headroom::data
