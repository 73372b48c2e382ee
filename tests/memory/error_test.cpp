#include <headroom/memory/error.hpp>

#include <gtest/gtest.h>

namespace headroom {
namespace error_test {

using namespace std::string_literals;

TEST(WithoutControls, LeavesWhatCanBeSeen) {
    EXPECT_EQ(without_controls("photos/Übung 1 – ½.jpg"), "photos/Übung 1 – ½.jpg");
    EXPECT_EQ(without_controls("latin-\xe9.txt"), "latin-\xe9.txt");
    EXPECT_EQ(without_controls(""), "");
}

TEST(WithoutControls, PutsAQuestionMarkInPlaceOfEachControlCharacter) {
    EXPECT_EQ(without_controls("a\nb\r\tc\x1b[31md\x7f\0e"s), "a?b??c?[31md??e");
    // U+009B, which some terminals take for an escape sequence; U+00A0 is a space.
    EXPECT_EQ(without_controls("a\u009b31m\u0080\u009f\u00a0"), "a?31m??\u00a0");
}

TEST(Errors, AreOfOneLineWhateverTheyName) {
    const std::string odd = "a\nb";
    EXPECT_STREQ(Error(odd).what(), "a?b");
    EXPECT_STREQ(FileError(odd).what(), "a?b");
    EXPECT_STREQ(ShapeError(odd).what(), "a?b");
    EXPECT_STREQ(DeviceError(odd).what(), "a?b");
    Error located("matmul");
    located.add_path(odd);
    EXPECT_STREQ(located.what(), "matmul, in a?b");
}

}  // namespace error_test
}  // namespace headroom
