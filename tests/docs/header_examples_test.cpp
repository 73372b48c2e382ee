// The examples in the comments of public headers are compiled: each stands in a source of tests/docs as its header
// shows it, mostly in header_examples_*_test.cpp, inside a function that declares what the example takes for granted.
// White space, line breaks and comments do not count. "..." in an example stands for any code; the source leaves lines
// out that end in "// not shown".
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <headroom/tests/support/source_path.hpp>

namespace header_examples_test {

namespace fs = std::filesystem;

/// Those whose public headers are read, not the ones in folders named internal or test.
constexpr const char* kLibraries[] = {"core",   "data", "dist",  "files", "kernels",
                                      "memory", "nn",   "optim", "plan",  "training"};

const fs::path root = headroom::test::source_path("");

/// A line's code without white space and comments.
std::string squeezed(std::string_view line) {
    std::string code(line.substr(0, line.find("//")));
    std::erase_if(code, [](char c) { return c == ' ' || c == '\t'; });
    return code;
}

std::string code_of(const fs::path& source) {
    std::ifstream file(source);
    std::string code;
    for (std::string line; std::getline(file, line);) {
        if (!line.ends_with("// not shown")) code += squeezed(line);
    }
    return code;
}

/// What a line of a comment shows: behind the slashes come five spaces and more, and then code.
std::string_view shown_by(std::string_view line) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!line.starts_with("//")) return {};
    line.remove_prefix(line.starts_with("///") ? 3 : 2);
    return line.starts_with("     ") ? line : std::string_view();
}

/// Neighbouring lines of code.
struct Example {
    std::string first_line;
    std::string code;
};

/// Formulas stand behind five spaces, too; they have neither semicolons nor braces.
bool is_code(const Example& example) { return example.code.find_first_of(";{}") != example.code.npos; }

std::vector<Example> examples_of(const fs::path& header) {
    std::ifstream file(header);
    std::vector<Example> examples;
    bool inside = false;
    for (std::string line; std::getline(file, line);) {
        const std::string_view shown = shown_by(line);
        if (!shown.empty() && !inside) examples.push_back({std::string(shown), {}});
        inside = !shown.empty();
        if (inside) examples.back().code += squeezed(shown);
    }
    std::erase_if(examples, [](const Example& example) { return !is_code(example); });
    return examples;
}

/// Whether the parts of an example between "..." stand in a source, in their order.
bool stands_in(std::string_view example, std::string_view source) {
    std::size_t from = 0;
    for (;;) {
        const std::size_t end = example.find("...");
        const std::string_view part = example.substr(0, end);
        from = source.find(part, from);
        if (from == source.npos || end == example.npos) return from != source.npos;
        from += part.size();
        example.remove_prefix(end + 3);
    }
}

std::vector<fs::path> public_headers(const fs::path& library) {
    std::vector<fs::path> headers;
    for (fs::recursive_directory_iterator entry(library), end; entry != end; ++entry) {
        const fs::path& path = entry->path();
        if (path.filename() == "internal" || path.filename() == "test") entry.disable_recursion_pending();
        if (path.extension() == ".hpp") headers.push_back(path);
    }
    std::sort(headers.begin(), headers.end());
    return headers;
}

TEST(HeaderExamples, AreCompiled) {
    std::vector<std::string> sources;
    for (const auto& entry : fs::directory_iterator(root / "tests" / "docs")) {
        if (entry.path().extension() == ".cpp") sources.push_back(code_of(entry.path()));
    }
    for (const char* library : kLibraries) {
        std::size_t examples = 0;
        for (const fs::path& header : public_headers(root / library)) {
            for (const Example& example : examples_of(header)) {
                ++examples;
                EXPECT_TRUE(std::any_of(sources.begin(), sources.end(),
                                        [&](const std::string& source) { return stands_in(example.code, source); }))
                    << header.lexically_relative(root).string()
                    << ": no source of tests/docs has the example that begins\n"
                    << example.first_line << "\nWrite it into one of header_examples_*_test.cpp.";
            }
        }
        EXPECT_GT(examples, 3u) << library;
    }
}

TEST(HeaderExamples, AreFoundByTheirCodeAlone) {
    EXPECT_TRUE(stands_in(squeezed("f(x);  // once"), squeezed("    f( x );")));
    EXPECT_FALSE(stands_in("f(x);", "f(y);"));
    EXPECT_TRUE(stands_in("f(...){return1;}", "intf(intx){g();}inth(){return1;}"));
    EXPECT_FALSE(stands_in("f(...){return1;}g", "g{return1;}f(x)"));
    EXPECT_TRUE(is_code({"f(x);", "f(x);"}));
    EXPECT_TRUE(is_code({"for (...) {", "for(...){"}));
    EXPECT_FALSE(is_code({"p <- p - lr * (g + m)", "p<-p-lr*(g+m)"}));
    EXPECT_EQ(shown_by("    ///     f(x);"), "     f(x);");
    EXPECT_TRUE(shown_by("// Prose, and  //     code in it.").empty());
    EXPECT_TRUE(shown_by("     f(x);").empty());
}

}  // namespace header_examples_test
