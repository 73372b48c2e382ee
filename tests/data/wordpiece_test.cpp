// Against transformers' BertTokenizer: scripts/reference/wordpiece.py.
#include <fstream>
#include <nlohmann/json.hpp>

#include <headroom/data/wordpiece.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::data {
namespace wordpiece_test {

using nlohmann::json;
using test::ScratchFolder;
using test::throws;
using Ids = std::vector<int32_t>;

const json& reference() {
    static const json contents = json::parse(std::ifstream(test::source_path("tests/reference/wordpiece.json")));
    return contents;
}

class WordPieceReference : public ::testing::TestWithParam<const char*> {
  protected:
    const json& expected() const { return reference()[GetParam()]; }
    WordPiece tokenizer() const {
        return WordPiece(reference()["vocabulary"].get<std::vector<std::string>>(),
                         {.lower_case = std::string(GetParam()) == "lower"});
    }
};

TEST_P(WordPieceReference, HasTheIdsOfTransformers) {
    const WordPiece tokens = tokenizer();
    const json& texts = reference()["texts"];
    ASSERT_GT(texts.size(), 20u);
    for (std::size_t i = 0; i < texts.size(); ++i)
        EXPECT_EQ(tokens.encode(texts[i].get<std::string>()), expected()["ids"][i].get<Ids>()) << texts[i];
}

TEST_P(WordPieceReference, CutsPairsAsTransformers) {
    const WordPiece tokens = tokenizer();
    ASSERT_GT(expected()["pairs"].size(), 20u);
    for (const json& pair : expected()["pairs"]) {
        const TokenizedText text = tokens.encode_pair(pair[0].get<std::string>(), pair[1].get<std::string>(), pair[2]);
        EXPECT_EQ(text.ids, pair[3].get<Ids>()) << pair;
        EXPECT_EQ(text.types, pair[4].get<Ids>()) << pair;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, WordPieceReference, ::testing::Values("lower", "cased"),
                         [](const auto& info) { return std::string(info.param); });

const std::vector<std::string> few = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "una", "##ffa", "##ble", "!"};

TEST(WordPiece, ReadsAVocabularyWithAnyEndsOfLines) {
    const ScratchFolder folder;
    const WordPiece plain =
        WordPiece::read(folder.write("a.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nuna\n##ffa\n##ble\n!"));
    const WordPiece windows = WordPiece::read(
        folder.write("b.txt", "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\nuna\r\n##ffa\r\n##ble\r\n!\r\n"));
    for (const WordPiece* tokens : {&plain, &windows}) {
        EXPECT_EQ(tokens->size(), 9);
        EXPECT_EQ(tokens->encode("Unaffable! unaffables"), (Ids{5, 6, 7, 8, 1}));
        EXPECT_EQ((Ids{tokens->pad(), tokens->unknown(), tokens->cls(), tokens->sep(), tokens->mask()}),
                  (Ids{0, 1, 2, 3, 4}));
    }
    EXPECT_EQ(plain.decode(plain.encode_pair("unaffable!", "!").ids), "[CLS] unaffable ! [SEP] ! [SEP]");
}

TEST(WordPiece, TheCaseOfLettersIsAsTheFilesSay) {
    const ScratchFolder folder;
    const std::string special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    const auto plain = folder.write("plain.txt", special + "the\ncafe\ncaf\xc3\xa9\n");
    const auto capitals = folder.write("capitals.txt", special + "the\ncafe\ncaf\xc3\xa9\nThe\nCaf\xc3\xa9\n");
    const auto ids = [](const std::filesystem::path& path, const WordPieceOptions& options = {}) {
        return WordPiece::read(path, options).encode("The Caf\xc3\xa9");
    };
    EXPECT_EQ(ids(plain), (Ids{5, 6}));
    EXPECT_EQ(ids(capitals), (Ids{8, 9}));
    EXPECT_FALSE(WordPiece::read(capitals).lower_case());
    EXPECT_EQ(ids(capitals, {.lower_case = true}), (Ids{5, 6}));
    const auto say = [&](const std::string& json) { folder.write("tokenizer_config.json", json); };
    say(R"({"do_lower_case": true, "strip_accents": null})");
    EXPECT_EQ(ids(capitals), (Ids{5, 6}));
    EXPECT_EQ(ids(capitals, {.lower_case = false}), (Ids{8, 9}));
    say(R"({"do_lower_case": false})");
    EXPECT_EQ(ids(plain), (Ids{1, 1}));
    say(R"({"do_lower_case": true, "strip_accents": false})");
    EXPECT_EQ(ids(plain), (Ids{5, 7}));
    say(R"({"strip_accents": true})");
    EXPECT_EQ(ids(capitals), (Ids{8, 1})) << "Cafe";
    say(R"({"tokenize_chinese_chars": false})");
    EXPECT_THAT([&] { ids(plain); }, throws<FileError>("tokenizer_config.json: \"tokenize_chinese_chars\" is false"));
    say(R"({"do_lower_case": "yes"})");
    EXPECT_THAT([&] { ids(plain); }, throws<FileError>("\"do_lower_case\" is neither true nor false"));
    say("[]");
    EXPECT_THAT([&] { ids(plain); }, throws<FileError>("tokenizer_config.json: a tokenizer's configuration must be"));
}

TEST(WordPiece, RefusesWhatItCantRead) {
    const ScratchFolder folder;
    EXPECT_THAT([&] { WordPiece::read(folder.write("a.txt", "[PAD]\n[UNK]\nthe\n")); },
                throws<FileError>("a.txt: has no token [CLS] among its 3; a vocab.txt of BERT has one per line"));
    EXPECT_THAT([&] { WordPiece::read(folder.path() / "none.txt"); }, throws<FileError>("none.txt: no such file"));
    EXPECT_THAT([] { WordPiece({}); }, throws<Error>("has no token [PAD] among its 0"));
    const WordPiece tokens(few);
    EXPECT_THAT([&] { tokens.encode("a\xff"); }, throws<Error>("invalid UTF-8 at byte 1"));
    EXPECT_THAT([&] { tokens.encode_pair("a", "b", 2); }, throws<Error>("2 tokens leave no room for 3 special ones"));
    EXPECT_THAT([&] { tokens.decode(Ids{9}); }, throws<Error>("token 9 is outside of the vocabulary of 9"));
}

}  // namespace wordpiece_test
}  // namespace headroom::data
