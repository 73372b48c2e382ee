#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include <headroom/data/counter_random.hpp>
#include <headroom/data/sampler.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace sampler_test {

using test::throws;
using Indices = std::vector<int64_t>;

Indices batch_of(const Sampler& sampler, int64_t epoch, int64_t batch) {
    Indices out;
    sampler.indices(epoch, batch, out);
    return out;
}

Indices epoch_of(const Sampler& sampler, int64_t epoch) {
    Indices all;
    for (int64_t batch = 0; batch < sampler.batches(); ++batch) {
        const Indices part = batch_of(sampler, epoch, batch);
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

Indices counted(int64_t count) {
    Indices indices(static_cast<std::size_t>(count));
    std::iota(indices.begin(), indices.end(), int64_t{0});
    return indices;
}

TEST(RandomWords, AreThoseOfSplitMix64) {
    // The first outputs of Vigna's reference implementation started at 1234567.
    constexpr uint64_t golden = 0x9e3779b97f4a7c15u;
    EXPECT_EQ(splitmix64_mix(1234567 + golden), 6457827717110365317u);
    EXPECT_EQ(splitmix64_mix(1234567 + 2 * golden), 3203168211198807973u);
    EXPECT_EQ(splitmix64_mix(1234567 + 3 * golden), 9817491932198370423u);
}

TEST(RandomWords, BelowABoundAreUniform) {
    const RandomWords words(1, 2);
    constexpr int cells = 10, draws = 100'000;
    std::vector<int> seen(cells);
    for (uint64_t i = 0; i < draws; ++i) ++seen.at(static_cast<std::size_t>(words.below(i, cells)));
    double chi_squared = 0;
    for (const int count : seen)
        chi_squared += (count - draws / cells) * (count - draws / cells) / double(draws / cells);
    EXPECT_LT(chi_squared, 27.88);  // 9 degrees of freedom: exceeded once in a thousand seeds
    EXPECT_EQ(words.below(0, 1), 0);
    EXPECT_GE(words.below(7, int64_t{1} << 62), 0);
}

TEST(RandomWords, OfDifferentSeedsAndStreamsDiffer) {
    std::set<uint64_t> seen;
    for (uint64_t seed = 0; seed < 30; ++seed)
        for (uint64_t stream = 0; stream < 30; ++stream)
            for (uint64_t i = 0; i < 30; ++i) seen.insert(RandomWords(seed, stream).word(i));
    EXPECT_EQ(seen.size(), 27'000u);
}

TEST(Sampler, InSequenceCountsUp) {
    const auto sampler = Sampler::sequential(7, 3);
    EXPECT_EQ(sampler.batches(), 3);
    EXPECT_EQ(epoch_of(sampler, 0), counted(7));
    EXPECT_EQ(epoch_of(sampler, 5), counted(7));
    EXPECT_EQ(batch_of(sampler, 0, 2), (Indices{6}));
}

TEST(Sampler, InSequenceMayKeepTheLastSampleApart) {
    const std::map<int64_t, std::vector<Indices>> expected = {
        {1, {{0}}}, {2, {{0}, {1}}}, {4, {{0, 1, 2}, {3}}}, {5, {{0, 1, 2}, {3}, {4}}}, {6, {{0, 1, 2}, {3, 4}, {5}}}};
    for (const auto& [samples, batches] : expected) {
        const auto sampler = Sampler::sequential(samples, 3, /*last_alone=*/true);
        ASSERT_EQ(sampler.batches(), static_cast<int64_t>(batches.size())) << samples;
        for (std::size_t i = 0; i < batches.size(); ++i)
            EXPECT_EQ(batch_of(sampler, 0, static_cast<int64_t>(i)), batches[i]) << samples;
    }
}

TEST(Sampler, ShuffledGivesEachSampleOncePerEpoch) {
    for (const int64_t samples : {1, 2, 10, 257}) {
        const auto sampler = Sampler::shuffled(samples, 4, 42);
        EXPECT_EQ(sampler.batches(), (samples + 3) / 4);
        for (int64_t epoch = 0; epoch < 3; ++epoch) {
            Indices all = epoch_of(sampler, epoch);
            std::sort(all.begin(), all.end());
            EXPECT_EQ(all, counted(samples));
        }
    }
}

TEST(Sampler, ShuffledDiffersByEpochAndSeed) {
    std::set<Indices> orders;
    for (uint64_t seed = 0; seed < 5; ++seed)
        for (int64_t epoch = 0; epoch < 5; ++epoch) orders.insert(epoch_of(Sampler::shuffled(50, 7, seed), epoch));
    EXPECT_EQ(orders.size(), 25u);
    EXPECT_EQ(epoch_of(Sampler::shuffled(50, 7, 3), 2), epoch_of(Sampler::shuffled(50, 7, 3), 2));
}

TEST(Sampler, ShuffledTakesAllPermutationsEquallyOften) {
    std::map<Indices, int> seen;
    constexpr int epochs = 24'000;
    const auto sampler = Sampler::shuffled(4, 4, 11);
    for (int64_t epoch = 0; epoch < epochs; ++epoch) ++seen[batch_of(sampler, epoch, 0)];
    ASSERT_EQ(seen.size(), 24u);
    double chi_squared = 0;
    for (const auto& [order, count] : seen) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
    EXPECT_LT(chi_squared, 49.73);  // 23 degrees of freedom: exceeded once in a thousand seeds
}

TEST(Sampler, ShuffledMayDropTheLastBatch) {
    const auto sampler = Sampler::shuffled(10, 4, 1, {.drop_last = true});
    EXPECT_EQ(sampler.batches(), 2);
    const Indices all = epoch_of(Sampler::shuffled(10, 4, 1), 3);
    EXPECT_EQ(epoch_of(sampler, 3), Indices(all.begin(), all.begin() + 8));
    EXPECT_EQ(Sampler::shuffled(8, 4, 1, {.drop_last = true}).batches(), 2);
}

TEST(Sampler, WithReplacementDrawsFromAll) {
    const auto sampler = Sampler::with_replacement(5, 3, 9);
    EXPECT_EQ(sampler.batches(), Sampler::kEndless);
    std::set<int64_t> seen;
    for (int64_t batch = 0; batch < 100; ++batch)
        for (const int64_t index : batch_of(sampler, 0, batch)) seen.insert(index);
    EXPECT_EQ(seen, (std::set<int64_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(batch_of(sampler, 0, 50), batch_of(Sampler::with_replacement(5, 3, 9), 0, 50));
    EXPECT_NE(batch_of(Sampler::with_replacement(1000, 8, 9), 0, 0),
              batch_of(Sampler::with_replacement(1000, 8, 10), 0, 0));
}

TEST(Sampler, SmallBatchesHoldTheSamplesOfLargeOnes) {
    const auto large = Sampler::with_replacement(1000, 12, 5);
    const auto small = Sampler::with_replacement(1000, 3, 5);
    for (int64_t step = 0; step < 10; ++step) {
        Indices joined;
        for (int64_t part = 0; part < 4; ++part)
            for (const int64_t index : batch_of(small, 0, 4 * step + part)) joined.push_back(index);
        EXPECT_EQ(joined, batch_of(large, 0, step));
    }
}

TEST(Sampler, WithReplacementContinuesAcrossEpochs) {
    const auto endless = Sampler::with_replacement(1000, 4, 5);
    const auto epochs = Sampler::with_replacement(1000, 4, 5, /*batches=*/10);
    EXPECT_EQ(batch_of(epochs, 3, 7), batch_of(endless, 0, 37));
}

// Changing these orders would make resumed trainings see other data than they would have seen.
TEST(Sampler, OrdersStayAsTheyAre) {
    EXPECT_EQ(epoch_of(Sampler::shuffled(10, 10, 1), 0), (Indices{9, 7, 4, 3, 8, 6, 5, 2, 1, 0}));
    EXPECT_EQ(epoch_of(Sampler::shuffled(10, 10, 1), 1), (Indices{3, 0, 5, 8, 7, 6, 1, 2, 4, 9}));
    EXPECT_EQ(batch_of(Sampler::with_replacement(1'003'790, 4, 1337), 0, 0), (Indices{990704, 760668, 65976, 356372}));
}

TEST(Sampler, IsSharedByThreads) {
    const auto sampler = Sampler::shuffled(100, 10, 3);
    std::vector<Indices> expected;
    for (int64_t task = 0; task < 50; ++task) expected.push_back(batch_of(sampler, task / 10, task % 10));
    std::vector<std::thread> threads;
    std::vector<int> wrong(4);
    for (std::size_t t = 0; t < wrong.size(); ++t)
        threads.emplace_back([&, t, copy = sampler] {
            for (std::size_t i = 0; i < 50; ++i) {
                const std::size_t task = t % 2 == 0 ? i : 49 - i;
                wrong[t] += batch_of(copy, int64_t(task) / 10, int64_t(task) % 10) != expected[task];
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(Sampler, RefusesWhatMakesNoBatches) {
    EXPECT_THAT([] { Sampler::sequential(0, 1); }, throws<Error>("0 samples"));
    EXPECT_THAT([] { Sampler::shuffled(-3, 1, 0); }, throws<Error>("-3 samples"));
    EXPECT_THAT([] { Sampler::with_replacement(5, 0, 0); },
                throws<Error>("a batch must have at least 1 sample, got 0"));
    EXPECT_THAT([] { Sampler::shuffled(5, 6, 0, {.drop_last = true}); },
                throws<Error>("a batch of 6 needs more than the 5 samples; use a batch of at most 5, or more samples"));
    EXPECT_THAT([] { Sampler::with_replacement(5, 1, 0, 0); },
                throws<Error>("an epoch must have at least 1 batch, got 0"));
    const auto sampler = Sampler::sequential(7, 3);
    EXPECT_THAT([&] { batch_of(sampler, 0, 3); }, throws<Error>("batch 3", "the 3 batches"));
    EXPECT_THAT([&] { batch_of(sampler, 0, -1); }, throws<Error>("batch -1"));
    EXPECT_THAT([&] { batch_of(sampler, -1, 0); }, throws<Error>("epoch -1"));
}

TEST(Sampler, NumbersWhatIsDrawnWhateverTheSizeOfBatches) {
    const auto numbers = [](const Sampler& sampler, int64_t epochs) {
        std::vector<std::pair<uint64_t, int64_t>> all;  // number and sample
        std::vector<int64_t> indices;
        for (int64_t epoch = 0; epoch < epochs; ++epoch)
            for (int64_t batch = 0; batch < sampler.batches(); ++batch) {
                sampler.indices(epoch, batch, indices);
                for (std::size_t i = 0; i < indices.size(); ++i)
                    all.emplace_back(sampler.first_draw(epoch, batch) + i, indices[i]);
            }
        return all;
    };
    const auto expected = numbers(Sampler::shuffled(23, 1, 7), 3);
    ASSERT_EQ(expected.size(), 69);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(expected[i].first, i);
    EXPECT_EQ(numbers(Sampler::shuffled(23, 5, 7), 3), expected);
    EXPECT_EQ(numbers(Sampler::sequential(23, 4, true), 3), numbers(Sampler::sequential(23, 1), 3));
    EXPECT_EQ(numbers(Sampler::with_replacement(23, 4, 7, 6), 3), numbers(Sampler::with_replacement(23, 2, 7, 12), 3));
    // What `drop_last` leaves out has its numbers.
    EXPECT_EQ(Sampler::shuffled(23, 5, 7, {.drop_last = true}).first_draw(2, 1), 2 * 23 + 5);
    EXPECT_EQ(Sampler::with_replacement(23, 4, 7).first_draw(0, 1000), 4000);
}

}  // namespace sampler_test
}  // namespace headroom::data
