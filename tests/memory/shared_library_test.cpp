#include <headroom/memory/shared_library.hpp>

#include <cmath>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>

namespace headroom::memory {
namespace shared_library_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(SharedLibrary, IsTheFirstOfItsFilesThatLoads) {
    const SharedLibrary library("C's mathematics", {"libnosuch.so.1", "libm.so.6"}, "install a C library");
    double (*cosine)(double) = nullptr;
    library.find(cosine, "cos");
    EXPECT_EQ(cosine(1.0), std::cos(1.0));
}

TEST(SharedLibrary, SaysWhyNoFileLoadsAndWhatToDo) {
    EXPECT_THAT(
        [] {
            SharedLibrary("the library", {"libnosuch.so.1", "libneither.so.1"}, "install it");
        },
        ThrowsMessage<DeviceError>(AllOf(StartsWith("the library can't be loaded (libnosuch.so.1: "),
                                         HasSubstr("; libneither.so.1: "), EndsWith("); install it"),
                                         Not(HasSubstr("\n")))));
}

/// Sets an environment variable as long as it lives.
class Variable {
  public:
    explicit Variable(const char* value) { setenv(kName, value, 1); }
    ~Variable() { unsetenv(kName); }
    static constexpr const char* kName = "HEADROOM_TEST_LIBRARY";
};

TEST(SharedLibrary, IsLookedForOnTheLoadersPathAndThenWhereTheBuildFoundIt) {
    EXPECT_THAT(library_files(Variable::kName, {"libm.so.6"}), ElementsAre("libm.so.6"));
    EXPECT_THAT(library_files(Variable::kName, {"libm.so.6", "/found/libm.so.6"}),
                ElementsAre("libm.so.6", "/found/libm.so.6"));
    const Variable empty("");
    EXPECT_THAT(library_files(Variable::kName, {"libm.so.6", ""}), ElementsAre("libm.so.6"));
}

TEST(SharedLibrary, IsNoOtherThanTheFileThatTheVariableNames) {
    const Variable chosen("/chosen/libm.so");
    EXPECT_THAT(library_files(Variable::kName, {"libm.so.6", "/found/libm.so.6"}), ElementsAre("/chosen/libm.so"));
}

TEST(SharedLibrary, NamesTheFunctionThatIsMissing) {
    const SharedLibrary library("the library", {"libm.so.6"}, "install another");
    void (*function)() = nullptr;
    EXPECT_THAT(
        [&] { library.find(function, "no_such_function"); },
        ThrowsMessage<DeviceError>("the library (libm.so.6) lacks the function no_such_function; install another"));
    EXPECT_EQ(function, nullptr);
}

}  // namespace shared_library_test
}  // namespace headroom::memory
