#include <headroom/core/nearest.hpp>

#include <gmock/gmock.h>

namespace headroom {
namespace nearest_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Nearest, NamesWhatOneMayHaveMeant) {
    const std::vector<std::string> names{"--data", "--lr", "--layers", "--min-lr"};
    EXPECT_THAT(nearest("--layer", names, 1), ElementsAre("--layers"));
    EXPECT_THAT(nearest("--dta", names, 1), ElementsAre("--data"));
    EXPECT_THAT(nearest("--max-lr", names, 2), ElementsAre("--min-lr", "--lr"));
    EXPECT_THAT(nearest("", {"b", "", "aaa"}, 9), ElementsAre("", "b", "aaa"));
    EXPECT_THAT(nearest("x", {}, 3), IsEmpty());
}

}  // namespace nearest_test
}  // namespace headroom
