// The main function of tests. A program may hold the tests of several sources; by the name of one of them, to which a
// link of that name leads, it runs those of this source:
//
//     build/ci/tests/core/core_tests        # all
//     build/ci/tests/core/core_tape_test    # those of tests/core/tape_test.cpp
#include <cstdio>
#include <filesystem>
#include <string>
#include <gtest/gtest.h>

namespace {

/// core_tape_test for .../tests/core/tape_test.cpp.
std::string name_of(const std::filesystem::path& source) {
    return source.parent_path().filename().string() + "_" + source.stem().string();
}

/// Leaves out what other sources hold, beside what the filter leaves out. How many tests are left to the filter.
int keep_tests_of(const std::string& name) {
    std::string others;
    int kept = 0;
    const auto& all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
        const testing::TestSuite& suite = *all.GetTestSuite(i);
        for (int j = 0; j < suite.total_test_count(); ++j) {
            const testing::TestInfo& test = *suite.GetTestInfo(j);
            if (name_of(test.file()) == name) {
                ++kept;
            } else {
                others += std::string(":") + suite.name() + "." + test.name();
            }
        }
    }
    std::string filter = GTEST_FLAG_GET(filter);
    if (filter.find('-') == std::string::npos) filter += "-";
    GTEST_FLAG_SET(filter, filter + others);
    return kept;
}

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    const std::string name = std::filesystem::path(argv[0]).filename().string();
    if (name.ends_with("_test") && keep_tests_of(name) == 0) {
        std::fprintf(stderr, "%s: holds no test of the source of that name\n", argv[0]);
        return 1;
    }
    return RUN_ALL_TESTS();
}
