#include <numeric>

#include <headroom/data/vocabulary.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace vocabulary_test {

using test::throws;
using Tokens = std::vector<int32_t>;

TEST(Vocabulary, OfCharactersIsSorted) {
    const auto vocabulary = Vocabulary::characters(
        "b\xe2\x82\xac"
        "a\xc3\xa4"
        "b\n");
    EXPECT_EQ(vocabulary.size(), 5);
    EXPECT_EQ(vocabulary.code_points(), (std::vector<uint32_t>{'\n', 'a', 'b', 0xe4, 0x20ac}));
    EXPECT_EQ(vocabulary.encode("a\xc3\xa4\xe2\x82\xac\n"), (Tokens{1, 3, 4, 0}));
}

TEST(Vocabulary, DecodesWhatItEncodes) {
    const std::string text = "Na\xc3\xafve caf\xc3\xa9 \xf0\x9f\x98\x80\n";
    for (const auto& vocabulary : {Vocabulary::characters(text), Vocabulary::bytes()})
        EXPECT_EQ(vocabulary.decode(vocabulary.encode(text)), text);
}

TEST(Vocabulary, OfBytesTakesEveryByte) {
    std::string all(256, '\0');
    std::iota(all.begin(), all.end(), '\0');
    const auto vocabulary = Vocabulary::bytes();
    Tokens expected(256);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(vocabulary.size(), 256);
    EXPECT_EQ(vocabulary.encode(all), expected);
    EXPECT_EQ(vocabulary.decode(expected), all);
}

TEST(Vocabulary, IsRestoredFromItsKindAndCodePoints) {
    for (const auto& saved : {Vocabulary::characters("hello w\xc3\xb6rld"), Vocabulary::bytes()}) {
        const auto name = vocabulary_kind_name(saved.kind());
        const auto restored = Vocabulary::restore(vocabulary_kind(name), saved.code_points());
        EXPECT_EQ(restored, saved);
    }
}

TEST(Vocabulary, RestoresNothingCorrupt) {
    const auto restore = [](std::vector<uint32_t> points, VocabularyKind kind = VocabularyKind::characters) {
        return [=] { Vocabulary::restore(kind, points); };
    };
    EXPECT_THAT(restore({}), throws<Error>("at least one"));
    EXPECT_THAT(restore({'a', 'a'}), throws<Error>("ascending"));
    EXPECT_THAT(restore({'b', 'a'}), throws<Error>("ascending"));
    EXPECT_THAT(restore({'a', 0xd800}), throws<Error>("U+D800"));
    EXPECT_THAT(restore({'a', 0x110000}), throws<Error>("U+110000"));
    EXPECT_THAT(restore({'a'}, VocabularyKind::bytes), throws<Error>("bytes"));
    EXPECT_THAT([] { vocabulary_kind("subwords"); }, throws<Error>("subwords", "characters or bytes"));
}

TEST(Vocabulary, RefusesUnknownCharactersWithTheirOffset) {
    const auto vocabulary = Vocabulary::characters("abc\xc3\xa4");
    EXPECT_THAT([&] { vocabulary.encode("a\xc3\xa4z"); }, throws<Error>("U+007A", "byte 3", "the 4 of"));
    EXPECT_THAT([&] { vocabulary.encode("\xe2\x82\xac"); }, throws<Error>("U+20AC", "byte 0"));
    EXPECT_THAT([&] { vocabulary.encode("ab\xff"); }, throws<Error>("invalid UTF-8 at byte 2"));
}

TEST(Vocabulary, RefusesTokensOutsideOfIt) {
    for (const auto& vocabulary : {Vocabulary::characters("abc"), Vocabulary::bytes()})
        for (const int32_t token : {-1, static_cast<int32_t>(vocabulary.size())})
            EXPECT_THAT([&] { vocabulary.decode(Tokens{token}); }, throws<Error>(std::to_string(token).c_str()));
}

TEST(Vocabulary, NeedsACharacter) {
    EXPECT_THAT([] { Vocabulary::characters(""); }, throws<Error>("at least one"));
}

}  // namespace vocabulary_test
}  // namespace headroom::data
