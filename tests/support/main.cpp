// The main function of tests. A program may hold the tests of several sources; by the name of one of them, to which a
// link of that name leads, it runs those of this source:
//
//     build/ci/tests/core/core_tests        # all
//     build/ci/tests/core/core_tape_test    # those of tests/core/tape_test.cpp
#include <cstdio>
#include <exception>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <gtest/gtest.h>

namespace {

/// core_tape_test for .../tests/core/tape_test.cpp.
std::string name_of(const std::filesystem::path& source) {
    return source.parent_path().filename().string() + "_" + source.stem().string();
}

/// Leaves out what other sources hold, beside what the filter leaves out. Errors: std::runtime_error where a test would
/// be run by no name, or not by its own.
void keep_tests_of(const std::string& program) {
    std::set<std::string> kept, others;
    const auto& all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
        const testing::TestSuite& suite = *all.GetTestSuite(i);
        for (int j = 0; j < suite.total_test_count(); ++j) {
            const testing::TestInfo& test = *suite.GetTestInfo(j);
            const std::string source = name_of(test.file()), name = std::string(suite.name()) + "." + test.name();
            if (!source.ends_with("_test"))
                throw std::runtime_error(name + " is of " + test.file() + ", by whose name no test is run");
            (source == program ? kept : others).insert(name);
        }
    }
    if (kept.empty()) throw std::runtime_error("there is no test of the source of that name");
    std::string filter = GTEST_FLAG_GET(filter);
    if (filter.find('-') == std::string::npos) filter += "-";
    for (const std::string& name : others) {
        if (kept.contains(name)) throw std::runtime_error("two sources have a test " + name);
        filter += ":" + name;
    }
    GTEST_FLAG_SET(filter, filter);
}

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    const std::string program = std::filesystem::path(argv[0]).filename().string();
    try {
        if (program.ends_with("_test")) keep_tests_of(program);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        return 1;
    }
    return RUN_ALL_TESTS();
}
