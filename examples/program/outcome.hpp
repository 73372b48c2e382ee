#pragma once
// How a program ends: 0 done, 1 failed, 2 wrong usage, 3 out of memory. Whatever goes wrong, one line on stderr says
// what and what to do; out of memory is followed by the report.
//
//     int main(int argc, char** argv) {
//         CLI::App app("...");
//         return program::run(app, argc, argv, [&] { train(); });
//     }
#include <functional>

#include <CLI/CLI.hpp>

namespace headroom::program {

/// Parses the command line, which has --version as well, then runs `body`; the exit code.
int run(CLI::App& app, int argc, char** argv, const std::function<void()>& body);

}  // namespace headroom::program
