// docs/ops.md is printed from the list of ops. HEADROOM_WRITE_DOCS=1 in the environment writes it anew. docs/results.md
// says what proves the kernels.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/all_ops.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::test {
namespace ops_table_test {

const std::string kPath = test::source_path("docs/ops.md");

constexpr const char* kIntroduction = R"(# Operations

The test `docs/ops_table_test` prints this page from the list of ops (`core/ops/all_ops.cpp`) and fails if the page is out
of date; `HEADROOM_WRITE_DOCS=1` in its environment rewrites the page. Other tests run over the same list. They check for
every op the gradients by finite differences (`core/gradients_test`), layouts and empty inputs (`core/layouts_test`),
refused inputs (`core/rejected_test`), replay bit for bit (`core/replay_test`) and the memory of a dry run
(`core/dry_test`). `core/reference_ops_test` compares values and gradients with PyTorch's.

Names are those that the tape reports; the headers in `core/ops/` show how to call each op.

- **Inputs**: the shapes of the op's first sample call. *positive*, *unit* (between 0 and 1) and *distinct* are floating
  inputs whose values the tests choose accordingly; *index* and *bool* are not floating; *(none)* is an optional input left
  out. An op without inputs makes its output from its attributes.
- **Cost**: `recompute_cheap()` recomputes only *cheap* ops.
- **Precision**: *follow* casts floating inputs of different dtypes to the widest; *half* casts f32 inputs to the dtype of
  an `Autocast`; *full* takes inputs as they are and computes in f32 (f64 for f64).
- **In place**: the output may take over the storage of one of these inputs if nothing else needs it, backward included.
- **Saves**: the number of arrays that are kept for backward: inputs, outputs, or small arrays of the op's own.
- **Gradient**: whether the op has one.

)";

std::string_view name(Cost cost) { return cost == Cost::cheap ? "cheap" : "expensive"; }

std::string_view name(Precision precision) {
    return precision == Precision::follow ? "follow" : precision == Precision::half ? "half" : "full";
}

std::string_view name(SampleInput::Fill fill) {
    constexpr std::string_view names[] = {"", "positive ", "unit ", "distinct ", "halves ", "index ", "bool "};
    return names[static_cast<int>(fill)];
}

std::string inputs_of(const OpEntry& op) {
    const std::vector<ErasedSample> samples = op.samples();
    std::string text;
    for (const SampleInput& input : samples.at(0).inputs) {
        if (!text.empty()) text += ", ";
        text += input.defined ? fmt::format("{}{}", name(input.fill), input.shape.to_string()) : "(none)";
    }
    return text.empty() ? "-" : text;
}

/// "1, 2": the inputs of which one may be overwritten, counted from 1.
std::string overwritten(unsigned in_place) {
    std::string text;
    for (int i = 0; in_place >> i; ++i) {
        if (in_place >> i & 1u) text += fmt::format("{}{}", text.empty() ? "" : ", ", i + 1);
    }
    return text.empty() ? "-" : text;
}

std::string row(const OpEntry& op) {
    const OpTable& table = *op.table;
    const auto yes = [](bool holds) { return holds ? "yes" : "-"; };
    return fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", table.info.name, inputs_of(op),
                       name(table.info.cost), name(table.info.precision), overwritten(table.info.in_place),
                       table.n_saved ? fmt::to_string(table.n_saved) : "-", yes(table.backward));
}

std::string page() {
    std::string text = kIntroduction;
    text += "| op | inputs | cost | precision | in place | saves | gradient |\n";
    text += "| --- | --- | --- | --- | --- | --- | --- |\n";
    for (const OpEntry& op : all_ops()) text += row(op);
    return text;
}

TEST(OpsPage, IsWhatTheListOfOpsSays) {
    const std::string expected = page();
    if (std::getenv("HEADROOM_WRITE_DOCS")) std::ofstream(kPath, std::ios::binary) << expected;
    std::ostringstream written;
    written << std::ifstream(kPath, std::ios::binary).rdbuf();
    EXPECT_EQ(written.str(), expected) << "run this test with HEADROOM_WRITE_DOCS=1 to write docs/ops.md anew";
}

std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// True if a test that `page` names as `kernels/...` includes headers of the family.
bool names_a_test_of(const std::string& page, const std::string& family) {
    static const std::regex name("`(kernels/\\w+_test)`");
    for (std::sregex_iterator it(page.begin(), page.end(), name), end; it != end; ++it) {
        const std::string source = text_of(source_path("tests/" + (*it)[1].str() + ".cpp"));
        if (source.find("<headroom/kernels/" + family + "/") != std::string::npos) return true;
    }
    return false;
}

/// docs/results.md: a folder of kernels/ with code for GPUs is proven by the test of its name, or by one that is named.
TEST(KernelFamilies, HaveATestOfTheirNameOrOneThatThePageNames) {
    const std::string page = text_of(source_path("docs/results.md"));
    std::set<std::string> families;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path("kernels"))) {
        if (entry.path().extension() == ".cu") families.insert(entry.path().parent_path().filename());
    }
    EXPECT_GT(families.size(), 20u);
    for (const std::string& family : families) {
        const bool own = std::filesystem::exists(source_path("tests/kernels/" + family + "_devices_test.cpp"));
        EXPECT_TRUE(own || names_a_test_of(page, family)) << family;
    }
}

}  // namespace ops_table_test
}  // namespace headroom::test
