// Loaders that share out the batches of one: together they read what it reads, and stand where it stands.
#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include <headroom/data/data_loader.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace shared_loader_test {

using test::throws;
using Indices = std::vector<int64_t>;

struct Numbers {
    using Batch = Indices;
    int64_t count = 23;

    int64_t size() const { return count; }
    void read(std::span<const int64_t> indices, Batch& batch) const { batch.assign(indices.begin(), indices.end()); }
};

struct Case {
    const char* name;
    Sampler sampler;
    int64_t epochs = Sampler::kEndless;
};
const std::vector<Case> cases = {
    {"in order", Sampler::sequential(23, 5)},        {"shuffled", Sampler::shuffled(23, 5, 7)},
    {"drawn", Sampler::with_replacement(23, 5, 7)},  {"drawn in epochs", Sampler::with_replacement(23, 5, 7, 6)},
    {"short epochs", Sampler::shuffled(23, 12, 7)},  {"one batch", Sampler::sequential(23, 23)},
    {"some epochs", Sampler::shuffled(23, 5, 7), 3},
};

/// The next batch, over ends of epochs; empty at the end of all.
Indices following(DataLoader<Numbers>& loader) {
    for (int i = 0; i < 100; ++i) {
        if (const Indices* batch = loader.next()) return *batch;
    }
    return {};
}

TEST(SharedLoader, ReadsTheBatchesOfItsRank) {
    const Numbers numbers;
    for (const Case& each : cases) {
        for (const int ranks : {1, 2, 3, 4}) {
            for (const int64_t step : {int64_t{4}, int64_t{5}, int64_t{7}}) {
                DataLoader alone(numbers, each.sampler, {.epochs = each.epochs});
                std::vector<Indices> all;
                std::vector<DataLoaderState> places{alone.state()};
                for (int64_t i = 1; i <= 3 * step; ++i) {
                    all.push_back(following(alone));
                    if (i % step == 0) places.push_back(alone.state());
                }
                for (int rank = 0; rank < ranks; ++rank) {
                    for (const int workers : {0, 2}) {
                        SCOPED_TRACE(testing::Message() << each.name << ", " << rank << " of " << ranks << ", step "
                                                        << step << ", " << workers << " workers");
                        DataLoader loader(numbers, each.sampler, {.workers = workers, .epochs = each.epochs});
                        loader.divide({rank, ranks, step});
                        for (std::size_t s = 0; s < 3; ++s) {
                            if (!all[s * static_cast<std::size_t>(step)].empty()) {
                                EXPECT_EQ(loader.state(), places[s]);
                            }
                            for (int64_t i = rank; i < step; i += ranks) {
                                const auto number = static_cast<std::size_t>(static_cast<int64_t>(s) * step + i);
                                EXPECT_EQ(following(loader), all[number]) << "number " << number;
                            }
                        }
                    }
                }
            }
        }
    }
}

// A position that was saved by any number of ranks is one of any other.
TEST(SharedLoader, GoesOnWithAnotherNumberOfRanks) {
    const Numbers numbers;
    for (const Case& each : cases) {
        if (each.epochs != Sampler::kEndless) continue;
        DataLoader alone(numbers, each.sampler);
        std::vector<Indices> all;
        for (int i = 0; i < 18; ++i) all.push_back(following(alone));
        DataLoader two(numbers, each.sampler, {.workers = 2});
        two.divide({1, 2, 6});
        for (const std::size_t number : {1, 3, 5}) EXPECT_EQ(following(two), all[number]) << each.name;
        DataLoader three(numbers, each.sampler);
        three.divide({2, 3, 6});
        three.restore(two.state());
        for (const std::size_t number : {8, 11}) EXPECT_EQ(following(three), all[number]) << each.name;
        DataLoader one(numbers, each.sampler, {.workers = 1});
        one.restore(three.state_dict().values);
        for (std::size_t number = 12; number < 18; ++number) EXPECT_EQ(following(one), all[number]) << each.name;
        three.rewind();
        EXPECT_EQ(following(three), all[2]) << each.name;
    }
}

TEST(SharedLoader, ItsPlaceIsKnownBetweenSteps) {
    const Numbers numbers;
    DataLoader loader(numbers, Sampler::sequential(23, 5));
    EXPECT_THAT([&] { loader.divide({2, 2, 4}); }, throws<Error>("loader: there is no rank 2 of 2"));
    EXPECT_THAT(
        [&] {
            loader.divide({0, 3, 2});
        },
        throws<Error>("loader: a step of 2 batches is too small for 3 ranks"));
    loader.divide({0, 2, 4});
    following(loader);
    EXPECT_THAT([&] { loader.state(); },
                throws<Error>("loader: with several ranks, the position is only defined between steps"));
    EXPECT_THAT([&] { loader.divide({0, 2, 4}); }, throws<Error>("loader: divide must be called between steps"));
    following(loader);
    EXPECT_EQ(loader.state().batch, 4);
}

}  // namespace shared_loader_test
}  // namespace headroom::data
