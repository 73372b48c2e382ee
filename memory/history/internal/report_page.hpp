#pragma once
// The page of `write_html_report` without its data: report/report.html and the files it includes, turned into C++ by
// cmake/embed_page.cmake during the build.
#include <span>
#include <string_view>

namespace headroom::memory {

/// Placeholder for the data.
inline constexpr std::string_view kReportData = "@data@";

/// The parts of the page in order; one of them is `kReportData`.
std::span<const std::string_view> report_page();

}  // namespace headroom::memory
