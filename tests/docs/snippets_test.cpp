// C++ that the documents show is compiled and run: each block stands, line by line, in a source of tests/docs,
// tests/consumer, tests/kernels or tests/simt. README.md's program is compiled by tests/consumer/run.cmake.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <headroom/tests/support/source_path.hpp>

namespace snippets_test {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

const fs::path root = headroom::test::source_path("");

/// Without indentation, since blocks are shown without the test around them; empty lines do not count.
void add_line(Lines& lines, const std::string& line) {
    const std::size_t first = line.find_first_not_of(" \t");
    if (first != std::string::npos) lines.push_back(line.substr(first));
}

Lines lines_of(const fs::path& path) {
    std::ifstream file(path);
    Lines lines;
    for (std::string line; std::getline(file, line);) add_line(lines, line);
    return lines;
}

std::vector<fs::path> files_of(const char* folder, const char* extension) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(root / folder)) {
        if (entry.path().extension() == extension) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

/// The C++ blocks of a page.
std::vector<Lines> blocks_of(const fs::path& page) {
    std::ifstream file(page);
    std::vector<Lines> blocks;
    bool inside = false;
    for (std::string line; std::getline(file, line);) {
        if (inside && line == "```") {
            inside = false;
        } else if (inside) {
            add_line(blocks.back(), line);
        } else if (line == "```cpp") {
            inside = true;
            blocks.emplace_back();
        }
    }
    return blocks;
}

TEST(Documents, ShowOnlyCodeThatIsCompiledAndRun) {
    std::vector<Lines> sources;
    for (const char* folder : {"tests/docs", "tests/consumer", "tests/kernels", "tests/simt"}) {
        for (const char* extension : {".cpp", ".hpp", ".cu"}) {
            for (const fs::path& path : files_of(folder, extension)) sources.push_back(lines_of(path));
        }
    }
    int blocks = 0;
    std::vector<fs::path> pages = files_of("docs", ".md");
    for (const fs::path& note : files_of("docs/notes", ".md")) pages.push_back(note);
    for (const fs::path& page : pages) {
        for (const Lines& block : blocks_of(page)) {
            ++blocks;
            const bool found = std::any_of(sources.begin(), sources.end(), [&](const Lines& source) {
                return std::search(source.begin(), source.end(), block.begin(), block.end()) != source.end();
            });
            EXPECT_TRUE(found) << page.filename()
                               << ": no source of tests/docs, tests/consumer, tests/kernels or tests/simt has the "
                                  "block that begins\n    "
                               << block.front();
        }
    }
    EXPECT_GT(blocks, 40);
}

}  // namespace snippets_test
