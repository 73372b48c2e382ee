#include <headroom/data/text.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace text_test {

using test::data_file;
using test::ScratchFolder;
using test::throws;
using namespace std::string_literals;

std::string text_of(const TextCorpus& corpus, TokenView tokens) {
    std::vector<int32_t> read(static_cast<std::size_t>(tokens.size()));
    tokens.copy(0, read);
    return corpus.vocabulary().decode(read);
}

TEST(Text, IsReadAsItIs) {
    const ScratchFolder folder;
    const std::string text = "\xef\xbb\xbfline\r\nn\xc3\xa4xt\n\n";
    EXPECT_EQ(read_text(folder.write("text", text)), text);
}

TEST(Text, ThatIsNotUtf8IsRefusedWithTheOffset) {
    const ScratchFolder folder;
    EXPECT_THAT([&] { read_text(folder.write("latin1.txt", "caf\xe9 noir")); },
                throws<FileError>("latin1.txt", "invalid UTF-8 at byte 3"));
    EXPECT_THAT([&] { read_text(folder.write("cut.txt", "ab\xe2\x82")); }, throws<FileError>("byte 2"));
}

TEST(Text, ThatIsBinaryIsRefused) {
    const ScratchFolder folder;
    EXPECT_THAT([&] { read_text(folder.write("zeros", std::string(1000, '\0'))); },
                throws<FileError>("zeros", "byte 0 is zero"));
    EXPECT_THAT([&] { read_text(folder.write("utf16", "h\0e\0y\0"s)); }, throws<FileError>("byte 1 is zero"));
}

TEST(Text, ThatCantBeReadIsRefused) {
    const ScratchFolder folder;
    EXPECT_THAT([&] { read_text(folder.path() / "none.txt"); }, throws<FileError>("none.txt", "no such file"));
    EXPECT_THAT([&] { read_text(folder.path()); }, throws<FileError>("folder"));
    EXPECT_THAT([&] { read_text(folder.write("empty.txt", "")); }, throws<FileError>("empty.txt", "is empty"));
}

TEST(TextCorpus, OfCharactersIsSplitForTrainingAndValidation) {
    const ScratchFolder folder;
    const auto path = folder.write("text", "abcdefghij\xc3\xa4klmnopqrs");  // 20 characters
    const auto corpus = TextCorpus::characters(path, {.block = 17});
    EXPECT_EQ(corpus.vocabulary().size(), 20);
    EXPECT_EQ(corpus.tokens().size(), 20);
    EXPECT_EQ(text_of(corpus, corpus.split().train), "abcdefghij\xc3\xa4klmnopq");
    EXPECT_EQ(text_of(corpus, corpus.split().validation), "rs");
}

TEST(TextCorpus, OfBytesTakesAnyFile) {
    const ScratchFolder folder;
    std::string contents = "\xff\0\xfe"s;
    contents.append(17, 'x');
    const auto corpus = TextCorpus::bytes(folder.write("binary", contents), {.block = 4, .train_fraction = 0.5});
    EXPECT_EQ(corpus.vocabulary(), Vocabulary::bytes());
    EXPECT_EQ(text_of(corpus, corpus.tokens()), contents);
    EXPECT_EQ(corpus.split().train.size(), 10);
}

TEST(TextCorpus, IsEncodedWithAVocabularyThatExists) {
    const ScratchFolder folder;
    const auto path = folder.write("text", "banana banana banana");
    const auto vocabulary = Vocabulary::characters("abn xyz");
    const auto corpus = TextCorpus::encoded(path, vocabulary);
    EXPECT_EQ(corpus.vocabulary(), vocabulary);
    EXPECT_EQ(text_of(corpus, corpus.tokens()), "banana banana banana");
    EXPECT_EQ(TextCorpus::encoded(path, Vocabulary::bytes()).tokens().at(0), 'b');
    EXPECT_THAT([&] { TextCorpus::encoded(path, Vocabulary::characters("ab ")); },
                throws<FileError>("text", "U+006E", "byte 2"));
}

TEST(TextCorpus, SurvivesMoves) {
    const ScratchFolder folder;
    auto corpus = TextCorpus::characters(folder.write("text", "0123456789012345678901234567"));
    const TextCorpus moved = std::move(corpus);
    EXPECT_EQ(text_of(moved, moved.split().validation), "567");
}

TEST(TextCorpus, TooShortForABlockIsRefused) {
    const ScratchFolder folder;
    const auto path = folder.write("short.txt", std::string(40, 'x'));  // 36 for training
    EXPECT_NO_THROW(TextCorpus::characters(path, {.block = 35}));
    for (const auto make : {TextCorpus::characters, TextCorpus::bytes})
        EXPECT_THAT([&] { make(path, {.block = 36}); },
                    throws<FileError>("short.txt", "40 tokens", "a block of 36 needs 37", "longer text"));
    const auto tiny = folder.write("tiny.txt", "0123456789");  // 1 for validation
    EXPECT_THAT([&] { TextCorpus::characters(tiny); }, throws<FileError>("1 for validation"));
    EXPECT_THAT([&] { TextCorpus::characters(path, {.block = 0}); }, throws<Error>("block of 0"));
    EXPECT_THAT([&] { TextCorpus::characters(path, {.block = 5, .train_fraction = 1.5}); }, throws<Error>("fraction"));
}

TEST(TextCorpus, OfTinyShakespeareIsWhatNanoGptSees) {
    const auto path = data_file("tinyshakespeare.txt");
    if (path.empty()) GTEST_SKIP() << "tinyshakespeare.txt is not there; set HEADROOM_DATA to its folder";
    const auto corpus = TextCorpus::characters(path, {.block = 256});
    EXPECT_EQ(corpus.vocabulary().size(), 65);
    EXPECT_EQ(corpus.split().train.size(), 1'003'854);
    EXPECT_EQ(corpus.split().validation.size(), 111'540);
    EXPECT_EQ(text_of(corpus, corpus.tokens().slice(0, 13)), "First Citizen");
}

}  // namespace text_test
}  // namespace headroom::data
