#include <cmath>

#include <headroom/data/data_loader.hpp>
#include <headroom/data/masked_windows.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace masked_windows_test {

using test::throws;

constexpr int64_t vocabulary = 1000;
constexpr SpecialTokens special{2, 3, 4};

/// None of them special.
std::vector<int32_t> numbered_tokens(int64_t count) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(5 + i * 7919 % (vocabulary - 5)));
    return tokens;
}

TEST(MaskedWindows, HaveTheTokensOfTheText) {
    const std::vector<int32_t> tokens = numbered_tokens(29);
    const MaskedWindows windows({tokens, vocabulary}, 10, special);
    ASSERT_EQ(windows.size(), 3);
    TokenBatch batch;
    windows.read(std::vector<int64_t>{2, 0, 1}, 0, batch);
    EXPECT_EQ(batch.rows, 3);
    EXPECT_EQ(batch.length, 10);
    const std::vector<int64_t> firsts = {16, 0, 8};
    for (std::size_t row = 0; row < 3; ++row)
        for (std::size_t i = 0; i < 10; ++i) {
            const int32_t input = batch.inputs[row * 10 + i], target = batch.targets[row * 10 + i];
            if (i == 0 || i == 9) {
                EXPECT_EQ(input, i == 0 ? special.cls : special.sep);
                EXPECT_EQ(target, -100);
            } else {
                EXPECT_EQ(target == -100 ? input : target, tokens[static_cast<std::size_t>(firsts[row]) + i - 1]);
            }
        }
}

TEST(MaskedWindows, ChooseAndReplaceInTheSharesOfThePaper) {
    const std::vector<int32_t> tokens = numbered_tokens(126 * 200);
    const MaskedWindows windows({tokens, vocabulary}, 128, special, {.seed = 11});
    DataLoader loader(windows, Sampler::shuffled(windows.size(), 200, 1), {.epochs = 1});
    const TokenBatch& batch = *loader.next();
    int chosen = 0, masked = 0, kept = 0;
    for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
        if (batch.targets[i] == -100) continue;
        ++chosen;
        masked += batch.inputs[i] == special.mask ? 1 : 0;
        kept += batch.inputs[i] == batch.targets[i] ? 1 : 0;
    }
    const auto expect = [](int count, int tries, double share) {
        EXPECT_NEAR(count, tries * share, 5 * std::sqrt(tries * share * (1 - share)));  // five deviations; seed 11
    };
    expect(chosen, 126 * 200, 0.15);
    // A token drawn from the vocabulary is [MASK] or the token itself once in a thousand times each.
    expect(masked, chosen, 0.8 + 0.1 / vocabulary);
    expect(kept, chosen, 0.1 + 0.1 / vocabulary);
}

TEST(MaskedWindows, ChooseAnewForEachDrawAndAlikeForTheSame) {
    const std::vector<int32_t> tokens = numbered_tokens(62 * 8);
    const MaskedWindows windows({tokens, vocabulary}, 64, special, {.seed = 3});
    const auto take = [&](int workers, int64_t size, int batches) {
        DataLoader loader(windows, Sampler::shuffled(8, size, 1), {.workers = workers});
        std::vector<int32_t> inputs;
        while (batches > 0)
            if (const TokenBatch* batch = loader.next()) {
                inputs.insert(inputs.end(), batch->inputs.begin(), batch->inputs.end());
                --batches;
            }
        return inputs;
    };
    const std::vector<int32_t> expected = take(0, 2, 8);
    EXPECT_EQ(take(2, 4, 4), expected);
    TokenBatch first, second;
    windows.read(std::vector<int64_t>{0}, 0, first);
    windows.read(std::vector<int64_t>{0}, 8, second);
    EXPECT_NE(first.inputs, second.inputs);
}

TEST(MaskedWindows, RefuseWhatCantBe) {
    const std::vector<int32_t> tokens = numbered_tokens(20);
    const TokenView view(tokens, vocabulary);
    EXPECT_THAT([&] { MaskedWindows(view, 2, special); },
                throws<ShapeError>("20 tokens are too few for a window of 2"));
    EXPECT_THAT([&] { MaskedWindows(view, 23, special); },
                throws<ShapeError>("20 tokens are too few for a window of 23"));
    EXPECT_THAT([&] { MaskedWindows(view, 10, special, {.probability = 0}); }, throws<Error>("at most 1, got 0"));
    EXPECT_THAT([&] { MaskedWindows(view, 10, {2, 3, 1000}); }, throws<Error>("special token 1000 is outside"));
    TokenBatch batch;
    EXPECT_THAT([&] { MaskedWindows(view, 10, special).read(std::vector<int64_t>{2}, 0, batch); },
                throws<ShapeError>("window 2 is out of range; the text has 2"));
}

}  // namespace masked_windows_test
}  // namespace headroom::data
