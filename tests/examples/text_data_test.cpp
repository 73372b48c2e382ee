// Which windows over a text train and validate a model of language.
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/data/data_loader.hpp>
#include <headroom/examples/cli/windows_task.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::cli {
namespace text_data_test {

TEST(NextTokens, TrainAtEveryTokenAndValidateOnEachOnce) {
    std::vector<std::int32_t> tokens(300);
    std::iota(tokens.begin(), tokens.end(), 0);
    const Corpus corpus{
        .split = data::split_tokens({tokens, 300}), .what = {}, .description = {}, .decode = {}, .storage = {}};
    TextFlags flags;
    flags.block = 7;
    flags.seed = 3;
    const training::Datasets<data::TextWindows> windows = next_tokens(corpus, flags, 4);

    std::set<std::int32_t> begins, targets;
    data::DataLoader training(windows.training, windows.order);
    for (int batch = 0; batch < 2000; ++batch) {  // each of 263 windows is missed once in 10^10 times
        const data::TokenBatch& given = *training.next();
        ASSERT_EQ(given.rows, 4);
        for (std::int64_t row = 0; row < given.rows; ++row) {
            begins.insert(given.inputs[static_cast<std::size_t>(row * given.length)]);
            targets.insert(given.targets[static_cast<std::size_t>((row + 1) * given.length - 1)]);
        }
    }
    EXPECT_EQ(begins.size(), 263);  // of 270 tokens
    EXPECT_EQ(*begins.begin(), 0);
    EXPECT_EQ(*targets.rbegin(), 269);

    std::vector<std::int32_t> validated;
    data::DataLoader validation(windows.validation, windows.in_order, {.epochs = 1});
    while (const auto given = validation.next())
        validated.insert(validated.end(), given->targets.begin(), given->targets.end());
    EXPECT_EQ(validated, std::vector<std::int32_t>(tokens.begin() + 271, tokens.end()));
}

/// A model of pieces has no gradient for [PAD], wherever that is in its vocabulary.
TEST(SpecialCorpus, HasTheTokensOfItsPieces) {
    const headroom::test::ScratchFolder folder;
    TextFlags flags;
    flags.block = 4;
    flags.data = folder.write("text.txt", "a b a a b b a b a b");
    const std::int64_t characters = read_corpus(flags).vocabulary;
    const Corpus plain = read_special_corpus(flags);
    EXPECT_EQ(plain.padding, std::nullopt);
    EXPECT_EQ(plain.special->cls, characters);
    EXPECT_EQ(plain.vocabulary, characters + 3);
    flags.pieces = folder.write("vocab.txt", "a\n[MASK]\n[UNK]\n[PAD]\nb\n[SEP]\n[CLS]\n");
    const Corpus pieces = read_special_corpus(flags);
    EXPECT_EQ(pieces.padding, 3);
    EXPECT_EQ(pieces.special->cls, 6);
    EXPECT_EQ(pieces.special->sep, 5);
    EXPECT_EQ(pieces.special->mask, 1);
    EXPECT_EQ(pieces.vocabulary, 7);
}

}  // namespace text_data_test
}  // namespace headroom::cli
