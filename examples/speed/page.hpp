#pragma once
// A comparison of ways to save memory as one HTML page that needs nothing else: a plot of memory against speed, and a
// table of all figures.
//
//     nlohmann::ordered_json comparison = {{"model", "gpt2"}, {"samples", "sequences"}, {"effective_batch", 4}};
//     comparison["rows"] = rows;
//     speed::write_speed_page(comparison, "speed.html");
#include <filesystem>

#include <nlohmann/json.hpp>

namespace headroom::speed {

/// `comparison`: what memory_speed --json writes. Errors: FileError if it can't be written.
void write_speed_page(const nlohmann::ordered_json& comparison, const std::filesystem::path& path);

}  // namespace headroom::speed
