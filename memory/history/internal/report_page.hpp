#pragma once
// The page of `write_html_report` without its data: report/report.html with the files that it includes, made into
// C++ by cmake/embed_page.cmake when the library is built.
#include <span>
#include <string_view>

namespace headroom::memory {

/// The placeholder of the data.
inline constexpr std::string_view kReportData = "@data@";

/// The parts of the page in their order; one of them is `kReportData`.
std::span<const std::string_view> report_page();

}  // namespace headroom::memory
