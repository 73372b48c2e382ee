// What the documents refer to exists: files, tests by their names, other documents.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <headroom/tests/support/source_path.hpp>

namespace references_test {

namespace fs = std::filesystem;

const fs::path root = headroom::test::source_path("");

std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> pages() {
    std::vector<fs::path> result{root / "README.md"};
    for (const char* folder : {"docs", "docs/notes"}) {
        for (const auto& entry : fs::directory_iterator(root / folder)) {
            if (entry.path().extension() == ".md") result.push_back(entry.path());
        }
    }
    return result;
}

/// Calls `check(page, first group)` for all matches in all pages, of which there are at least `least`.
template <class Check>
void for_each_match(const char* pattern, int least, Check&& check) {
    const std::regex expression(pattern);
    int count = 0;
    for (const fs::path& page : pages()) {
        SCOPED_TRACE(page.lexically_relative(root).string());
        const std::string text = text_of(page);
        for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match, ++count) {
            check(page, (*match)[1].str());
        }
    }
    EXPECT_GE(count, least) << pattern;
}

TEST(Documents, NameTestsThatExist) {
    for_each_match("`([a-z]+/[a-z0-9_]+_test)`", 150, [](const fs::path&, const std::string& name) {
        const fs::path path = root / "tests" / name;
        EXPECT_TRUE(fs::exists(path.string() + ".cpp") || fs::exists(path.string() + ".py")) << name;
    });
}

TEST(Documents, NamePromisesThatAreTested) {
    std::string tests;
    for (const auto& entry : fs::recursive_directory_iterator(root / "tests")) {
        if (entry.path().extension() == ".cpp") tests += text_of(entry.path());
    }
    for_each_match("`[A-Z][A-Za-z]+\\.([A-Z][A-Za-z0-9]{8,})`", 20, [&](const fs::path&, const std::string& name) {
        EXPECT_NE(tests.find(", " + name + ")"), std::string::npos) << name;
    });
}

TEST(Documents, NameFilesThatExist) {
    for_each_match("`([a-z0-9_]+(?:/[a-z0-9_]+)+\\.(?:cpp|cu|cuh|hpp|md|py|txt))`", 70,
                   [](const fs::path&, const std::string& name) { EXPECT_TRUE(fs::exists(root / name)) << name; });
}

TEST(Documents, LinkToPagesThatExist) {
    // Not those to other sites, which have a colon; scripts/docs --check knows the anchors.
    for_each_match("\\]\\(([^)#:\\s]+)(?:#[^)\\s]*)?\\)", 70, [](const fs::path& page, const std::string& name) {
        EXPECT_TRUE(fs::exists(page.parent_path() / name)) << name;
    });
}

TEST(Documents, HaveAMapThatLeadsToEachNoteAndIsReadInTenMinutes) {
    const std::string map = text_of(root / "docs" / "architecture.md");
    int notes = 0;
    for (const auto& entry : fs::directory_iterator(root / "docs" / "notes")) {
        ++notes;
        const std::string name = entry.path().filename().string();
        EXPECT_NE(map.find("(notes/" + name + ")"), std::string::npos) << name;
    }
    EXPECT_GE(notes, 10);
    std::istringstream words(map);
    EXPECT_LE(std::distance(std::istream_iterator<std::string>(words), {}), 1200);
}

}  // namespace references_test
