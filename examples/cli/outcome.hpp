#pragma once
// How a program ends: 0 done, 1 failed, 2 wrong usage, 3 out of memory, 130 ended by Ctrl-C and 143 by SIGTERM.
// Whatever goes wrong, one line on stderr says what and what to do; out of memory is followed by the report.
//
//     int main(int argc, char** argv) {
//         App app("...");
//         return cli::run(app, argc, argv, [&] { train(); });
//     }
#include <exception>
#include <functional>

#include <headroom/examples/cli/options.hpp>

namespace headroom::cli {

/// A signal ended the body early, which has saved and printed what there is.
struct Interrupted : std::exception {
    explicit Interrupted(int number) : signal(number) {}
    int signal;
};

/// Parses the command line, which has --version as well, then runs `body`; the exit code.
int run(App& app, int argc, char** argv, const std::function<void()>& body);

}  // namespace headroom::cli
