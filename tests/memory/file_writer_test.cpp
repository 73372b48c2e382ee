#include <headroom/memory/history/internal/file_writer.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <headroom/memory/error.hpp>

namespace headroom::memory {
namespace file_writer_test {

std::string json(std::string_view text) {
    std::string out;
    append_json(out, text);
    return out;
}

std::string base64(std::string_view bytes) {
    std::string out;
    append_base64(out, bytes);
    return out;
}

TEST(ValidUtf8, KeepsCharactersAndReplacesOtherBytes) {
    for (const std::string_view good : {"", "blocks.0", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
        EXPECT_EQ(valid_utf8(good), good);
    }
    const std::string bad = "\xEF\xBF\xBD";
    EXPECT_EQ(valid_utf8("a\x80z"), "a" + bad + "z");
    EXPECT_EQ(valid_utf8("\xC3"), bad);                                // cut off
    EXPECT_EQ(valid_utf8("\xE2\x82"), bad + bad);                      // cut off
    EXPECT_EQ(valid_utf8("\xC0\xAF"), bad + bad);                      // longer than needed
    EXPECT_EQ(valid_utf8("\xED\xA0\x80"), bad + bad + bad);            // half of a pair
    EXPECT_EQ(valid_utf8("\xF4\x90\x80\x80"), bad + bad + bad + bad);  // beyond Unicode
}

TEST(AppendJson, IsAStringWhateverItHolds) {
    EXPECT_EQ(json("plain"), "\"plain\"");
    EXPECT_EQ(json("a\"b\\c"), R"("a\"b\\c")");
    EXPECT_EQ(json(std::string_view("\0\n\x1f\x7f", 4)), R"("\u0000\u000a\u001f\u007f")");
    EXPECT_EQ(json("</script>"), R"("\u003c/script>")");
    EXPECT_EQ(json("\xC3\xA4\xFF"), "\"\xC3\xA4\xEF\xBF\xBD\"");
}

TEST(AppendBase64, IsThatOfRfc4648) {
    EXPECT_EQ(base64(""), "");
    EXPECT_EQ(base64("f"), "Zg==");
    EXPECT_EQ(base64("fo"), "Zm8=");
    EXPECT_EQ(base64("foo"), "Zm9v");
    EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
    EXPECT_EQ(base64("\xFB\xFF\xBF"), "+/+/");
}

TEST(FileWriter, WritesAllThatWasAppended) {
    const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "headroom_file_writer_test";
    std::string want;
    FileWriter file(path);
    for (int i = 0; i < 100'000; ++i) {
        const std::string line = std::to_string(i) + "\n";
        file.text += line;
        want += line;
        file.flush_if_full();
    }
    file.finish();
    std::ifstream stream(path, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), want);
    std::filesystem::remove(path);
}

TEST(FileWriter, SaysWhichFileCantBeWritten) {
    try {
        FileWriter file("/no/such/folder/trace.json");
        FAIL();
    } catch (const FileError& error) {
        EXPECT_STREQ(error.what(),
                     "memory history: /no/such/folder/trace.json can't be written: No such file or directory");
    }
    if (!std::filesystem::exists("/dev/full")) return;
    FileWriter full("/dev/full");
    full.text = "text";
    EXPECT_THROW(full.finish(), FileError);
}

}  // namespace file_writer_test
}  // namespace headroom::memory
