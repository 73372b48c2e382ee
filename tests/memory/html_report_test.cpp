#include <headroom/memory/history/html_report.hpp>

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <headroom/memory/error.hpp>
#include <headroom/memory/history/internal/report_page.hpp>
#include <headroom/tests/support/training_history.hpp>

namespace headroom::memory {
namespace html_report_test {

std::string page_of(std::span<const NamedSnapshot> snapshots) {
    const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "headroom_html_report_test.html";
    write_html_report(snapshots, path);
    std::ifstream file(path, std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(file), {});
    file.close();
    std::filesystem::remove(path);
    return text;
}

std::size_t count(std::string_view text, std::string_view part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
}

TEST(ReportPage, IsWholeAndPutTogether) {
    std::string page;
    int places = 0;
    for (const std::string_view part : report_page()) {
        if (part == kReportData) ++places;
        if (part != kReportData) page += part;
        EXPECT_LT(part.size(), 65536u);  // what every compiler takes as one literal
    }
    EXPECT_EQ(places, 1);
    EXPECT_EQ(page.find("@include"), page.npos);
    EXPECT_EQ(page.substr(0, 15), "<!DOCTYPE html>");
    EXPECT_NE(page.find("class History"), page.npos);
    EXPECT_EQ(page.substr(page.size() - 8), "</html>\n");
}

TEST(HtmlReport, AsksNothingOfTheNetwork) {
    const MemorySnapshot snapshot = headroom::test::training_history();
    const std::array<NamedSnapshot, 1> one{{{"run", &snapshot}}};
    const std::string page = page_of(one);
    for (const char* part :
         {"http:", "https:", "//cdn", " src=", " href=", "@import", "url(", "fetch(", "XMLHttpRequest"}) {
        EXPECT_EQ(page.find(part), page.npos) << part;
    }
}

TEST(HtmlReport, TitlesCantBreakOutOfTheData) {
    const MemorySnapshot snapshot = headroom::test::training_history({.layers = 1, .steps = 1});
    const std::array<NamedSnapshot, 1> plain{{{"title", &snapshot}}};
    const std::array<NamedSnapshot, 1> odd{{{"</script><script>alert(1)</script>", &snapshot}}};
    EXPECT_EQ(count(page_of(odd), "</script>"), count(page_of(plain), "</script>"));
}

TEST(HtmlReport, AnEventTakesLessThanTwelveBytes) {
    const MemorySnapshot few = headroom::test::training_history({.steps = 1});
    const MemorySnapshot many = headroom::test::training_history({.steps = 40});
    const std::array<NamedSnapshot, 1> first{{{"run", &few}}};
    const std::array<NamedSnapshot, 1> second{{{"run", &many}}};
    const std::size_t more = page_of(second).size() - page_of(first).size();
    EXPECT_LT(static_cast<double>(more) / static_cast<double>(many.events.size() - few.events.size()), 12.0);
}

TEST(HtmlReport, TakesHistoriesThatAreEmptyOrHaveNoUnit) {
    const MemorySnapshot nothing;
    MemorySnapshot odd;  // sizes and addresses without a common divisor
    odd.events = {{.time = 5, .address = 101, .bytes = 3}, {.time = 4, .address = 104, .bytes = 7}};
    const std::array<NamedSnapshot, 2> both{{{"nothing", &nothing}, {"odd", &odd}}};
    const std::string page = page_of(both);
    EXPECT_EQ(count(page, "\"unit\":1,"), 2u);
    EXPECT_NE(page.find("\"eventsCount\":2"), page.npos);
    EXPECT_NE(page_of({}).find("\"snapshots\":[]"), page.npos);
}

TEST(HtmlReport, ATitleWithoutASnapshotIsAnError) {
    const std::array<NamedSnapshot, 1> one{{{"run", nullptr}}};
    EXPECT_THROW(write_html_report(one, "/no/such/folder/report.html"), Error);
}

TEST(HtmlReport, AFolderThatIsNotThereIsAFileError) {
    EXPECT_THROW(write_html_report({}, "/no/such/folder/report.html"), FileError);
}

}  // namespace html_report_test
}  // namespace headroom::memory
