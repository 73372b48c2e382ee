#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include <headroom/data/data_loader.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace data_loader_test {

using test::throws;
using namespace std::chrono_literals;
using Indices = std::vector<int64_t>;

/// Batches are the indices themselves; reading them takes an uneven time and may fail.
struct Numbers {
    using Batch = Indices;
    int64_t count = 23;
    std::function<void(std::span<const int64_t>)> before = [](auto) {};

    int64_t size() const { return count; }
    void read(std::span<const int64_t> indices, Batch& batch) const {
        before(indices);
        if (indices[0] % 3 == 0) std::this_thread::sleep_for(50us);
        batch.assign(indices.begin(), indices.end());
    }
};

struct ReadsACopy : Numbers {
    void read(std::span<const int64_t> indices, Batch batch) const { Numbers::read(indices, batch); }
};
struct DrawsACopy : Numbers {
    void read(std::span<const int64_t> indices, std::uint64_t, Batch batch) const { Numbers::read(indices, batch); }
};
static_assert(Dataset<Numbers>);
static_assert(!Dataset<ReadsACopy> && !Dataset<DrawsACopy>);  // which would train on nothing

/// What `next` returns, an end of epoch as an empty batch.
std::vector<Indices> take(DataLoader<Numbers>& loader, int calls) {
    std::vector<Indices> all;
    for (int i = 0; i < calls; ++i) {
        const Indices* batch = loader.next();
        all.push_back(batch ? *batch : Indices{});
    }
    return all;
}

const std::vector<std::pair<const char*, Sampler>> samplers = {
    {"in order", Sampler::sequential(23, 5)},       {"last alone", Sampler::sequential(23, 4, true)},
    {"shuffled", Sampler::shuffled(23, 5, 7)},      {"drop last", Sampler::shuffled(23, 5, 7, {.drop_last = true})},
    {"drawn", Sampler::with_replacement(23, 5, 7)}, {"drawn in epochs", Sampler::with_replacement(23, 5, 7, 6)},
};

TEST(Loader, ReturnsWhatTheSamplerSays) {
    const Numbers numbers;
    DataLoader loader(numbers, Sampler::sequential(7, 3));
    const std::vector<Indices> epoch{{0, 1, 2}, {3, 4, 5}, {6}, {}};
    EXPECT_EQ(take(loader, 4), epoch);
    EXPECT_EQ(take(loader, 4), epoch);
}

TEST(Loader, ReturnsTheSameWhateverTheNumberOfWorkers) {
    const Numbers numbers;
    for (const auto& [name, sampler] : samplers) {
        DataLoader alone(numbers, sampler);
        const auto expected = take(alone, 30);
        for (const int workers : {1, 2, 4})
            for (const int prefetch : {1, 3, 20}) {
                DataLoader loader(numbers, sampler, {.workers = workers, .prefetch = prefetch});
                EXPECT_EQ(take(loader, 30), expected) << name << ", " << workers << " workers, " << prefetch;
            }
    }
}

TEST(Loader, ResumesAnywhereWithTheSameOrder) {
    const Numbers numbers;
    for (const auto& [name, sampler] : samplers) {
        DataLoader whole(numbers, sampler);
        const auto expected = take(whole, 24);
        for (int stop = 0; stop < 16; ++stop) {
            DataLoader first(numbers, sampler, {.workers = stop % 3});
            take(first, stop);
            const DataLoaderState saved = first.state();
            DataLoader second(numbers, sampler, {.workers = (stop + 1) % 3});
            take(second, stop / 2);
            second.restore(saved);
            EXPECT_EQ(second.state(), saved);
            EXPECT_EQ(take(second, 8), std::vector<Indices>(expected.begin() + stop, expected.begin() + stop + 8))
                << name << ", stopped after " << stop;
        }
    }
}

TEST(Loader, ForgetsWhatItHasReadAheadWhereItIsRestored) {
    std::atomic<int> reads{0};
    Numbers numbers;
    numbers.before = [&](auto) { ++reads; };
    for (const auto& [name, sampler] : samplers) {
        DataLoader whole(numbers, sampler);
        const auto expected = take(whole, 24);
        for (const bool by_values : {false, true}) {
            SCOPED_TRACE(fmt::format("{}, by values {}", name, by_values));
            DataLoader loader(numbers, sampler, {.workers = 2, .prefetch = 8});
            const auto expect = [&](int first, int calls) {
                EXPECT_EQ(take(loader, calls),
                          std::vector<Indices>(expected.begin() + first, expected.begin() + first + calls));
            };
            reads = 0;
            expect(0, 3);
            while (reads < 11) std::this_thread::sleep_for(20us);
            const DataLoaderState saved = loader.state();
            const StateValues values = loader.state_dict().values;
            EXPECT_EQ(saved.batch, 3);
            expect(3, 4);
            by_values ? loader.restore(values) : loader.restore(saved);
            EXPECT_EQ(loader.state(), saved);
            expect(3, 9);
            // What can't be restored leaves also what was read ahead.
            DataLoaderState bad = saved;
            ++bad.batch_size;
            EXPECT_THAT([&] { loader.restore(bad); }, throws<Error>("batch size"));
            expect(12, 9);
        }
    }
}

TEST(Loader, RewindsToTheFirstBatch) {
    const Numbers numbers;
    for (const int workers : {0, 2}) {
        DataLoader loader(numbers, Sampler::shuffled(23, 5, 7), {.workers = workers});
        const auto expected = take(loader, 13);
        loader.rewind();
        EXPECT_EQ(take(loader, 13), expected);
    }
}

TEST(Loader, EndsAfterItsEpochs) {
    const Numbers numbers;
    for (const int workers : {0, 2}) {
        DataLoader loader(numbers, Sampler::sequential(4, 2), {.workers = workers, .epochs = 2});
        const std::vector<Indices> expected{{0, 1}, {2, 3}, {}, {0, 1}, {2, 3}, {}, {}, {}};
        EXPECT_EQ(take(loader, 8), expected);
        const DataLoaderState ended = loader.state();
        loader.rewind();
        EXPECT_EQ(take(loader, 6), std::vector<Indices>(expected.begin(), expected.begin() + 6));
        loader.rewind();
        loader.restore(ended);
        EXPECT_EQ(loader.next(), nullptr);
    }
}

TEST(Loader, ReadsNothingBeyondItsEpochs) {
    std::atomic<int> reads{0};
    Numbers numbers;
    numbers.before = [&](auto) { ++reads; };
    {
        DataLoader loader(numbers, Sampler::sequential(6, 2), {.workers = 2, .prefetch = 10, .epochs = 1});
        EXPECT_EQ(reads.load(), 0);  // nor anything before the first batch is wanted
        take(loader, 5);
        std::this_thread::sleep_for(2ms);
    }
    EXPECT_EQ(reads.load(), 3);
}

TEST(Loader, ReadsAheadOnlyAsFarAsAllowed) {
    std::atomic<int> reads{0};
    Numbers numbers;
    numbers.before = [&](auto) { ++reads; };
    DataLoader loader(numbers, Sampler::with_replacement(23, 2, 1), {.workers = 3, .prefetch = 2});
    for (int used = 1; used < 40; ++used) {
        loader.next();
        std::this_thread::sleep_for(200us);
        EXPECT_LE(reads.load(), used + 2);
    }
}

TEST(Loader, ABatchStaysUntilTheNextCall) {
    const Numbers numbers;
    DataLoader loader(numbers, Sampler::with_replacement(23, 4, 1), {.workers = 2, .prefetch = 1});
    for (int i = 0; i < 40; ++i) {
        const Indices* batch = loader.next();
        const Indices copy = *batch;
        std::this_thread::sleep_for(100us);
        EXPECT_EQ(*batch, copy);
    }
}

TEST(Loader, ErrorsReachTheCallerAtTheirBatchAndTheBatchCanBeTriedAgain) {
    for (const int workers : {0, 1, 3}) {
        std::atomic<bool> broken{true};
        Numbers numbers;
        numbers.before = [&](std::span<const int64_t> indices) {
            if (broken && indices[0] == 6) throw FileError("sample 6 can't be read");
        };
        DataLoader loader(numbers, Sampler::sequential(10, 2), {.workers = workers});
        EXPECT_EQ(take(loader, 3), (std::vector<Indices>{{0, 1}, {2, 3}, {4, 5}}));
        for (int attempt = 0; attempt < 3; ++attempt)
            EXPECT_THAT([&] { loader.next(); }, throws<FileError>("sample 6 can't be read"));
        EXPECT_EQ(loader.state().batch, 3);
        broken = false;
        EXPECT_EQ(take(loader, 3), (std::vector<Indices>{{6, 7}, {8, 9}, {}}));
    }
}

TEST(Loader, ErrorsThatAreNoExceptionsArriveToo) {
    Numbers numbers;
    numbers.before = [](auto) { throw 42; };
    for (const int workers : {0, 2}) {
        DataLoader loader(numbers, Sampler::sequential(10, 2), {.workers = workers});
        EXPECT_THROW(loader.next(), int);
    }
}

TEST(Loader, IsDestroyedAtAnyTime) {
    for (int taken = 0; taken < 10; ++taken)
        for (const int workers : {0, 1, 4}) {
            Numbers numbers;
            numbers.before = [&](std::span<const int64_t> indices) {
                std::this_thread::sleep_for(100us);
                if (indices[0] == 13) throw std::runtime_error("perhaps unseen");
            };
            DataLoader loader(numbers, Sampler::shuffled(23, 2, 1), {.workers = workers, .prefetch = 3});
            try {
                take(loader, taken);
            } catch (const std::runtime_error&) {
            }
        }
}

TEST(Loader, ReadsInItsWorkersOnly) {
    std::mutex mutex;
    std::set<std::thread::id> readers;
    Numbers numbers;
    numbers.before = [&](auto) {
        const std::lock_guard lock(mutex);
        readers.insert(std::this_thread::get_id());
    };
    DataLoader loader(numbers, Sampler::sequential(23, 1), {.workers = 2});
    take(loader, 60);
    EXPECT_LE(readers.size(), 2u);
    EXPECT_FALSE(readers.contains(std::this_thread::get_id()));
}

TEST(Loader, CanBeMovedWhileItsWorkersRead) {
    const Numbers numbers;
    for (const int workers : {0, 2}) {
        DataLoader whole(numbers, Sampler::shuffled(23, 5, 7));
        const auto expected = take(whole, 10);
        DataLoader loader(numbers, Sampler::shuffled(23, 5, 7), {.workers = workers});
        auto all = take(loader, 4);
        DataLoader moved(std::move(loader));
        for (auto& batch : take(moved, 6)) all.push_back(batch);
        EXPECT_EQ(all, expected);
    }
}

TEST(Loader, SaysThatAnEpochHasEndedToWhoReadsNoBatch) {
    const Numbers numbers;
    DataLoader loader(numbers, Sampler::sequential(23, 23));
    EXPECT_EQ(loader.next()->size(), 23u);
    EXPECT_THAT([&] { return (*loader.next()).size(); }, throws<Error>("because the epoch has ended"));
    EXPECT_EQ((*loader.next()).size(), 23u);
    EXPECT_THAT([&] { return loader.next()->size(); }, throws<Error>("because the epoch has ended"));
}

TEST(Loader, MovedFromSaysSo) {
    const Numbers numbers;
    DataLoader loader(numbers, Sampler::shuffled(23, 5, 7));
    const DataLoader other(std::move(loader));
    EXPECT_THAT([&] { loader.next(); }, throws<Error>("loader: it has no batches since it was moved from"));
    loader.rewind();
    loader.restore(other.state());
    EXPECT_EQ(loader.state(), other.state());
}

TEST(Loader, RefusesPositionsOfOtherData) {
    const Numbers numbers;
    DataLoader loader(numbers, Sampler::shuffled(23, 5, 7), {.epochs = 4});
    take(loader, 2);
    const DataLoaderState good = loader.state();
    const auto with = [&](auto change) {
        return [&, change] {
            DataLoaderState bad = good;
            change(bad);
            loader.restore(bad);
        };
    };
    EXPECT_THAT(with([](auto& s) { s.seed = 8; }), throws<Error>("seed 8", "has 7"));
    EXPECT_THAT(with([](auto& s) { s.samples = 24; }), throws<Error>("number of samples 24", "has 23"));
    EXPECT_THAT(with([](auto& s) { s.batch_size = 6; }), throws<Error>("batch size 6", "has 5"));
    EXPECT_THAT(with([](auto& s) { s.order = "sequential"; }), throws<Error>("order sequential", "has shuffled"));
    EXPECT_THAT(with([](auto& s) { s.batches_per_epoch = 4; }), throws<Error>("batches per epoch 4", "has 5"));
    DataLoader alone(numbers, Sampler::sequential(23, 4, /*last_alone=*/true));
    const DataLoaderState together = DataLoader(numbers, Sampler::sequential(23, 4)).state();
    EXPECT_THAT([&] { alone.restore(together); },
                throws<Error>("of order sequential", "has sequential, the last alone"));
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    for (const auto& [epoch, batch] : std::vector<std::pair<int64_t, int64_t>>{
             {-1, 0}, {0, -1}, {0, 6}, {4, 1}, {5, 0}, {most, 0}, {most, most}, {0, most}})
        EXPECT_THAT(with([&, e = epoch, b = batch](auto& s) { s.epoch = e, s.batch = b; }), throws<Error>("outside"));
    EXPECT_EQ(loader.state(), good);
    EXPECT_NE(loader.next(), nullptr);
}

TEST(Loader, RefusesAPositionThatCantBeCounted) {
    const Numbers numbers;
    DataLoader loader(numbers, Sampler::shuffled(23, 5, 7));
    DataLoaderState far = loader.state();
    far.epoch = std::numeric_limits<int64_t>::max() / 2;
    EXPECT_THAT([&] { loader.restore(far); }, throws<Error>("outside"));
}

TEST(Loader, RefusesOptionsOutOfRange) {
    const Numbers numbers;
    const auto make = [&](DataLoaderOptions options) {
        return [&, options] { DataLoader(numbers, Sampler::sequential(23, 5), options); };
    };
    EXPECT_THAT(make({.workers = -1}), throws<Error>("-1 workers"));
    EXPECT_THAT(make({.workers = 5000}), throws<Error>("5000 workers"));
    EXPECT_THAT(make({.workers = 1, .prefetch = 0}), throws<Error>("0 prefetched"));
    EXPECT_THAT(make({.epochs = 0}), throws<Error>("epochs must be at least 1, got 0"));
    EXPECT_THAT([&] { DataLoader(numbers, Sampler::sequential(24, 5)); }, throws<Error>("24 samples", "has 23"));
}

TEST(Loader, GoesOnWithOtherSamplesWhereThatIsAllowed) {
    const Numbers before{23}, fewer{17}, more{31};
    DataLoader loader(before, Sampler::shuffled(23, 5, 7));
    take(loader, 10);  // the whole first epoch, its end, and four batches of the second
    const DataLoaderState saved = loader.state();
    EXPECT_EQ(saved.batch, 4);
    for (const auto& numbers : {fewer, more}) {
        const Sampler sampler = Sampler::shuffled(numbers.count, 5, 7);
        DataLoader strict(numbers, sampler);
        EXPECT_THAT([&] { strict.restore(saved); },
                    throws<Error>("number of samples 23", fmt::to_string(numbers.count)));
        DataLoader other(numbers, sampler, {.changed_data = true});
        other.restore(saved);
        EXPECT_EQ(other.state().epoch, 1);
        EXPECT_EQ(other.state().batch, 4);  // of 4, so that the epoch is over, or of 7
        Indices rest;
        if (numbers.count == 31) sampler.indices(1, 4, rest);
        EXPECT_EQ(take(other, 1)[0], rest);
        DataLoaderState far = saved;
        far.batch = 100;
        other.restore(far);
        EXPECT_EQ(other.state().batch, sampler.batches());
        far.batch = -1;
        EXPECT_THAT([&] { other.restore(far); }, throws<Error>("is outside of the data"));
    }
    DataLoader seeded(fewer, Sampler::shuffled(17, 5, 8), {.changed_data = true});
    EXPECT_THAT([&] { seeded.restore(saved); }, throws<Error>("seed 7"));
    DataLoader sized(fewer, Sampler::shuffled(17, 4, 7), {.changed_data = true});
    EXPECT_THAT([&] { sized.restore(saved); }, throws<Error>("batch size 5"));
}

}  // namespace data_loader_test
}  // namespace headroom::data
