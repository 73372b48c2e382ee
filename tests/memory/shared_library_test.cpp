#include <headroom/memory/shared_library.hpp>

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>

namespace headroom::memory {
namespace {

using ::testing::AllOf;
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

TEST(SharedLibrary, SaysWhyTheFirstFileDoesNotLoadAndWhatToDo) {
    EXPECT_THAT(
        [] {
            SharedLibrary("the library", {"libnosuch.so.1", "libneither.so.1"}, "install it");
        },
        ThrowsMessage<DeviceError>(AllOf(StartsWith("the library can't be loaded (libnosuch.so.1: "),
                                         EndsWith("); install it"), Not(HasSubstr("libneither")))));
}

TEST(SharedLibrary, NamesTheFunctionThatIsMissing) {
    const SharedLibrary library("the library", {"libm.so.6"}, "install another");
    void (*function)() = nullptr;
    EXPECT_THAT([&] { library.find(function, "no_such_function"); },
                ThrowsMessage<DeviceError>("the library (libm.so.6) has no no_such_function; install another"));
    EXPECT_EQ(function, nullptr);
}

}  // namespace
}  // namespace headroom::memory
