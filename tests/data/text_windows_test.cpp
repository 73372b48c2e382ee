#include <numeric>

#include <headroom/data/data_loader.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace text_windows_test {

using test::throws;
using Indices = std::vector<int64_t>;
using Tokens = std::vector<int32_t>;

static_assert(Dataset<TextWindows>);

Tokens counted(int64_t count) {
    Tokens tokens(static_cast<std::size_t>(count));
    std::iota(tokens.begin(), tokens.end(), 0);
    return tokens;
}

TEST(TextWindows, TargetsAreTheInputsShiftedByOne) {
    const Tokens tokens = counted(10);
    const TextWindows windows(TokenView(tokens, 10), 3, WindowStart::every_token);
    EXPECT_EQ(windows.size(), 7);  // the last window begins at 6: inputs 6 7 8, targets 7 8 9
    EXPECT_EQ(windows.full_windows(), 7);
    TokenBatch batch;
    windows.read(Indices{6, 0}, batch);
    EXPECT_EQ(batch.rows, 2);
    EXPECT_EQ(batch.length, 3);
    EXPECT_EQ(batch.inputs, (Tokens{6, 7, 8, 0, 1, 2}));
    EXPECT_EQ(batch.targets, (Tokens{7, 8, 9, 1, 2, 3}));
}

TEST(TextWindows, InOrderMakeEveryTokenButTheFirstATargetOnce) {
    for (int64_t count = 2; count < 40; ++count)
        for (const int64_t block : {1, 3, 8, 64})
            for (const int64_t rows : {1, 2, 5}) {
                const Tokens tokens = counted(count);
                const TextWindows windows(TokenView(tokens, count), block, WindowStart::every_block);
                DataLoader loader(windows, windows.in_order(rows), {.epochs = 1});
                Tokens inputs, targets;
                while (const TokenBatch* batch = loader.next()) {
                    inputs.insert(inputs.end(), batch->inputs.begin(), batch->inputs.end());
                    targets.insert(targets.end(), batch->targets.begin(), batch->targets.end());
                    EXPECT_EQ(batch->rows * batch->length, static_cast<int64_t>(batch->inputs.size()));
                    EXPECT_TRUE(batch->length == block || batch->rows == 1);
                }
                EXPECT_EQ(inputs, Tokens(tokens.begin(), tokens.end() - 1)) << count << ' ' << block << ' ' << rows;
                EXPECT_EQ(targets, Tokens(tokens.begin() + 1, tokens.end()));
            }
}

TEST(TextWindows, OnlyTheLastOfThoseInOrderIsShorter) {
    const Tokens tokens = counted(12);
    const TextWindows windows(TokenView(tokens, 12), 4, WindowStart::every_block);
    EXPECT_EQ(windows.size(), 3);
    EXPECT_EQ(windows.full_windows(), 2);
    EXPECT_EQ(windows.length(1), 4);
    EXPECT_EQ(windows.length(2), 3);
    TokenBatch batch;
    windows.read(Indices{2}, batch);
    EXPECT_EQ(batch.inputs, (Tokens{8, 9, 10}));
    EXPECT_EQ(batch.targets, (Tokens{9, 10, 11}));
    EXPECT_THAT([&] { windows.read(Indices{1, 2}, batch); }, throws<ShapeError>("windows of 4 and 3", "in_order"));
}

TEST(TextWindows, AreReadFromAllFormats) {
    const std::vector<uint16_t> tokens{300, 301, 302, 303};
    const TextWindows windows(TokenView(tokens, 400), 2, WindowStart::every_token);
    TokenBatch batch;
    windows.read(Indices{1}, batch);
    EXPECT_EQ(batch.targets, (Tokens{302, 303}));
}

TEST(TextWindows, RefuseTokensOutsideOfTheVocabularyAlsoAsTargets) {
    const Tokens tokens{0, 1, 2, 9};
    const TextWindows windows(TokenView(tokens, 9), 3, WindowStart::every_token);
    TokenBatch batch;
    EXPECT_THAT([&] { windows.read(Indices{0}, batch); }, throws<Error>("token 9 at position 3"));
}

TEST(TextWindows, RefuseTextsThatAreTooShort) {
    const Tokens tokens = counted(4);
    const auto make = [&](int64_t count, int64_t block, WindowStart start) {
        return [&tokens, count, block, start] { TextWindows(TokenView(tokens, 4).slice(0, count), block, start); };
    };
    EXPECT_NO_THROW(make(4, 3, WindowStart::every_token)());
    EXPECT_THAT(make(4, 4, WindowStart::every_token), throws<ShapeError>("4 tokens are too few for windows of 4"));
    EXPECT_NO_THROW(make(2, 100, WindowStart::every_block)());
    EXPECT_THAT(make(1, 100, WindowStart::every_block), throws<ShapeError>("1 tokens are too few"));
    EXPECT_THAT(make(0, 1, WindowStart::every_block), throws<ShapeError>("0 tokens are too few"));
    EXPECT_THAT(make(4, 0, WindowStart::every_token), throws<ShapeError>("at least 1 token, got 0"));
}

TEST(TextWindows, RefuseIndicesOutsideOfThem) {
    const Tokens tokens = counted(10);
    const TextWindows windows(TokenView(tokens, 10), 3, WindowStart::every_token);
    TokenBatch batch;
    for (const int64_t index : {int64_t{-1}, int64_t{7}})
        EXPECT_THAT(
            [&] {
                windows.read(Indices{0, index}, batch);
            },
            throws<ShapeError>("is out of range; the text has 7"));
}

}  // namespace text_windows_test
}  // namespace headroom::data
