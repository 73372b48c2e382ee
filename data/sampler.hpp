#pragma once
// Decides which samples make up each batch. The indices of a batch are a pure function of (seed, epoch, batch), without
// state, so any thread can compute any batch in any order, and a training can resume at any batch. Pass it to a
// `DataLoader`, or use it in your own loop.
//
//     data::Sampler sampler = data::Sampler::shuffled(/*samples=*/9000, /*batch=*/64, /*seed=*/1, {.drop_last = true});
//     std::vector<int64_t> indices;
//     for (int64_t batch = 0; batch < sampler.batches(); ++batch) {
//         sampler.indices(/*epoch=*/0, batch, indices);
//     }
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

namespace headroom::data {

enum class SampleOrder { sequential, shuffled, with_replacement };

/// "sequential", "shuffled" or "with_replacement".
std::string_view sample_order_name(SampleOrder order);

struct ShuffleOptions {
    /// Drops an epoch's last batch if it is smaller. Each epoch drops different samples.
    bool drop_last = false;
};

/// Copies are cheap and share the order of the current epochs. All members are thread-safe.
class Sampler {
  public:
    /// The value of `batches()` for an order with endless epochs.
    static constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

    // Moves copy, so that no sampler is left without its order.
    Sampler(const Sampler&) = default;
    Sampler& operator=(const Sampler&) = default;

    /// 0, 1, 2, ...; an epoch's last batch may be smaller. With `last_alone` the last sample gets its own batch,
    /// because it has another shape. Errors, as for all orders: Error if `samples` or `batch` is below 1.
    static Sampler sequential(std::int64_t samples, std::int64_t batch, bool last_alone = false);

    /// Each sample once per epoch, in the order of the Fisher-Yates shuffle (Durstenfeld's form, CACM 7(7), 1964) of 0,
    /// 1, 2, ... with the random words (seed, epoch). Holds 16 bytes per sample. Errors: also Error if `drop_last`
    /// leaves nothing.
    static Sampler shuffled(std::int64_t samples, std::int64_t batch, std::uint64_t seed, ShuffleOptions options = {});

    /// Draws each sample from all samples, with replacement, as in nanoGPT. Sample i of batch k is draw k * batch + i
    /// of the seed, so n small batches hold the same samples as one batch that is n times as large. `batches` only sets
    /// the length of an epoch. Errors: also Error if `batches` is below 1.
    static Sampler with_replacement(std::int64_t samples, std::int64_t batch, std::uint64_t seed,
                                    std::int64_t batches = kEndless);

    SampleOrder order() const { return order_; }
    std::int64_t samples() const { return samples_; }
    std::int64_t batch() const { return batch_; }
    std::uint64_t seed() const { return seed_; }
    /// True if the last sample has its own batch.
    bool last_alone() const { return last_alone_; }
    /// Batches per epoch.
    std::int64_t batches() const { return batches_; }

    /// The samples of one batch, written to `out`. Errors: Error if `epoch` is negative or `batch` is outside of
    /// [0, batches()).
    void indices(std::int64_t epoch, std::int64_t batch, std::vector<std::int64_t>& out) const;

    /// The number of samples before the batch since epoch 0, including those that `drop_last` drops. So each drawn
    /// sample has a unique number for any batch size, which keys its random augmentation.
    std::uint64_t first_draw(std::int64_t epoch, std::int64_t batch) const;

  private:
    class Permutations;

    Sampler(SampleOrder order, std::int64_t samples, std::int64_t batch, std::uint64_t seed);

    SampleOrder order_;
    std::int64_t samples_;
    std::int64_t batch_;
    std::uint64_t seed_;
    std::int64_t batches_ = kEndless;
    bool last_alone_ = false;
    std::shared_ptr<Permutations> permutations_;  // for `shuffled` only
};

}  // namespace headroom::data
