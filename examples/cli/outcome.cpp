#include <headroom/examples/cli/outcome.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <headroom/examples/cli/options.hpp>
#include <headroom/examples/cli/processes.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/plan/planner.hpp>
#include <headroom/version.hpp>

namespace headroom::cli {

namespace {

/// A file that is opened must not take the place of a standard one that is closed: what is printed would go there.
void keep_standard_files() {
    for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(file, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDONLY);  // takes the lowest number
    }
}

void flush_results() {
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
        throw FileError(fmt::format("standard output: results can't be written ({})", std::strerror(errno)));
}

std::optional<dist::World> joined;

/// Of the command line, whose other flags are looked at when all have joined: the first one speaks for all.
dist::JoinOptions timeouts(const App& app, const std::vector<std::string>& words) {
    dist::JoinOptions options;
    if (!app.find("--join-timeout")) return options;
    App flags("", app.name());
    flags.take_some();
    add_timeouts(flags, options);
    flags.parse(words);
    return options;
}

/// Joins the processes that there are.
void join(const dist::JoinOptions& options) {
    joined.emplace(dist::World::join(options));
    if (!joined->remark().empty()) fmt::print(stderr, "{}\n", joined->remark());
    if (joined->rank() > 0 && !std::freopen("/dev/null", "w", stdout)) throw Error("/dev/null can't be opened");
}

/// Errors that all processes have met are told by the first one, which ends the others before their turn.
void wait_for_turn() {
    using namespace std::chrono_literals;
    const int rank = dist::World::told_rank();
    if (rank > 0) std::this_thread::sleep_for((joined ? 300ms : 2000ms) + 100ms * rank);
}

}  // namespace

const dist::World& world() {
    if (!joined) joined.emplace(dist::World::join());
    return *joined;
}

void add_timeouts(App& app, dist::JoinOptions& options) {
    add_option(app, "--join-timeout", options.join_timeout,
               "with several processes: seconds within which all must join; 0: no limit")
        .check(real(0, 1e9))
        .show_default();
    add_option(app, "--rank-timeout", options.rank_timeout,
               "with several processes: seconds to wait for one that makes no progress; 0: no limit")
        .check(real(0, 1e9))
        .show_default();
}

void expect_alone(const char* program) {
    if (world().ranks() > 1) throw Error(fmt::format("{} works in one process; start it without mpirun", program));
}

int run(App& app, int argc, char** argv, const std::function<void()>& body) {
    app.version(fmt::format("{} {}", app.name(), version));
    // A file that grows past the shell's limit is then an error of the write, and the program can say so.
    std::signal(SIGXFSZ, SIG_IGN);
    keep_standard_files();
    const auto end = [&](int code, const std::string& why, const std::string& report = "") {
        wait_for_turn();
        const std::string line = without_controls(fmt::format("{}: {}", app.name(), why));
        std::fputs((line + '\n' + report).c_str(), stderr);  // fmt::print would throw
        if (joined) joined->abort(code);
        return code;
    };
    try {
        const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
        join(timeouts(app, words));
        app.parse(words);
        body();
        flush_results();
        joined.reset();
        return 0;
    } catch (const TextAsked& asked) {
        if (!joined || joined->rank() == 0) std::cout << asked.text;
        joined.reset();
        return std::cout.flush() ? 0 : end(1, "the text can't be written to standard output");
    } catch (const WrongUsage& error) {
        return end(2, fmt::format("{} (--help lists the options)", error.what()));
    } catch (const Interrupted& early) {
        std::fflush(stdout);
        joined.reset();
        return 128 + early.signal;  // as shells have it
    } catch (const memory::OutOfMemory& error) {
        return end(3, error.what(), error.report().to_string());
    } catch (const plan::BudgetTooSmall& error) {
        const std::string split =
            error.least_split() < error.least() && error.least_split()
                ? fmt::format(", or --split-batch, with which the least found is {} bytes", *error.least_split())
                : "";
        return end(3, fmt::format("--budget {}: the least found is {} bytes; use --budget {}{}", error.budget(),
                                  error.least(), error.least(), split));
    } catch (const std::bad_alloc&) {
        return end(3, "the host is out of memory; use a smaller batch or less data");
    } catch (const std::exception& error) {
        return end(1, error.what());
    }
}

}  // namespace headroom::cli
