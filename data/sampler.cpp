#include <headroom/data/sampler.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <headroom/data/counter_random.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr std::uint64_t kDrawStream = 0;  // of random words; epoch e is shuffled by stream e + 1

std::vector<std::int64_t> shuffled_order(std::int64_t samples, std::uint64_t seed, std::int64_t epoch) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    const RandomWords words(seed, static_cast<std::uint64_t>(epoch) + 1);
    for (std::int64_t last = samples - 1; last > 0; --last) {
        const std::int64_t chosen = words.below(static_cast<std::uint64_t>(last), last + 1);
        std::swap(order[static_cast<std::size_t>(last)], order[static_cast<std::size_t>(chosen)]);
    }
    return order;
}

}  // namespace

// The orders of the two epochs asked for last: while the first batches of an epoch are prefetched, the last ones of
// the epoch before may still be on their way.
class Sampler::Permutations {
  public:
    using Order = std::shared_ptr<const std::vector<std::int64_t>>;

    Order of_epoch(std::int64_t samples, std::uint64_t seed, std::int64_t epoch) {
        const std::lock_guard lock(mutex_);
        for (const auto& [known, order] : recent_)
            if (order && known == epoch) return order;
        std::swap(recent_[0], recent_[1]);
        recent_[0].second.reset();
        recent_[0] = {epoch, std::make_shared<const std::vector<std::int64_t>>(shuffled_order(samples, seed, epoch))};
        return recent_[0].second;
    }

  private:
    std::mutex mutex_;
    std::array<std::pair<std::int64_t, Order>, 2> recent_;
};

std::string_view sample_order_name(SampleOrder order) {
    switch (order) {
        case SampleOrder::sequential:
            return "sequential";
        case SampleOrder::shuffled:
            return "shuffled";
        case SampleOrder::with_replacement:
            break;
    }
    return "with_replacement";
}

Sampler::Sampler(SampleOrder order, std::int64_t samples, std::int64_t batch, std::uint64_t seed)
    : order_(order), samples_(samples), batch_(batch), seed_(seed) {
    if (samples < 1) throw Error(fmt::format("there are {} samples to choose from; at least 1 is needed", samples));
    if (batch < 1) throw Error(fmt::format("a batch must have at least 1 sample, got {}", batch));
}

Sampler Sampler::sequential(std::int64_t samples, std::int64_t batch, bool last_alone) {
    Sampler sampler(SampleOrder::sequential, samples, batch, 0);
    const std::int64_t together = samples - (last_alone ? 1 : 0);
    sampler.batches_ = together / batch + (together % batch != 0 ? 1 : 0) + (last_alone ? 1 : 0);
    sampler.last_alone_ = last_alone;
    return sampler;
}

Sampler Sampler::shuffled(std::int64_t samples, std::int64_t batch, std::uint64_t seed, ShuffleOptions options) {
    Sampler sampler(SampleOrder::shuffled, samples, batch, seed);
    sampler.batches_ = samples / batch + (!options.drop_last && samples % batch != 0 ? 1 : 0);
    if (sampler.batches_ == 0)
        throw Error(
            fmt::format("a batch of {} needs more than the {} samples; use a batch of at most {}, or more samples",
                        batch, samples, samples));
    sampler.permutations_ = std::make_shared<Permutations>();
    return sampler;
}

Sampler Sampler::with_replacement(std::int64_t samples, std::int64_t batch, std::uint64_t seed, std::int64_t batches) {
    Sampler sampler(SampleOrder::with_replacement, samples, batch, seed);
    if (batches < 1) throw Error(fmt::format("an epoch must have at least 1 batch, got {}", batches));
    sampler.batches_ = batches;
    return sampler;
}

void Sampler::indices(std::int64_t epoch, std::int64_t batch, std::vector<std::int64_t>& out) const {
    if (epoch < 0 || batch < 0 || batch >= batches_)
        throw Error(
            fmt::format("batch {} of epoch {} is outside of the {} batches of an epoch", batch, epoch, batches_));
    if (order_ == SampleOrder::with_replacement) {
        const RandomWords words(seed_, kDrawStream);
        const std::uint64_t first = first_draw(epoch, batch);
        out.resize(static_cast<std::size_t>(batch_));
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = words.below(first + i, samples_);
        return;
    }
    const std::int64_t together = samples_ - (last_alone_ ? 1 : 0);
    const bool alone = last_alone_ && batch == batches_ - 1;
    const std::int64_t first = alone ? together : batch * batch_;
    const std::int64_t count = alone ? 1 : std::min(batch_, together - first);
    out.resize(static_cast<std::size_t>(count));
    if (order_ == SampleOrder::sequential) {
        std::iota(out.begin(), out.end(), first);
    } else {
        const auto order = permutations_->of_epoch(samples_, seed_, epoch);
        std::copy_n(order->begin() + first, count, out.begin());
    }
}

std::uint64_t Sampler::first_draw(std::int64_t epoch, std::int64_t batch) const {
    const auto before = static_cast<std::uint64_t>(batch) * static_cast<std::uint64_t>(batch_);
    if (order_ == SampleOrder::with_replacement)
        return static_cast<std::uint64_t>(epoch) * static_cast<std::uint64_t>(batches_) *
                   static_cast<std::uint64_t>(batch_) +
               before;
    const bool alone = last_alone_ && batch == batches_ - 1;
    const auto samples = static_cast<std::uint64_t>(samples_);
    return static_cast<std::uint64_t>(epoch) * samples + (alone ? samples - 1 : before);
}

}  // namespace headroom::data
