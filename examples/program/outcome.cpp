#include <headroom/examples/program/outcome.hpp>

#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <headroom/core/nearest.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/version.hpp>

namespace headroom::program {

namespace {

/// What is wrong with the command line: in our words, where CLI11's would puzzle.
std::string wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
    const std::string what = error.what();
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) {
        const std::string option = what.substr(0, what.find(':'));
        return option + (what.find("At Most") == std::string::npos ? ": a value is missing" : " is given twice");
    }
    const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error);
    const std::vector<std::string> words = app.remaining();
    if (words.empty() || !(extras || dynamic_cast<const CLI::RequiredError*>(&error))) return what;
    const std::string rest = extras ? "" : "; " + what;
    if (!words.front().starts_with("--")) return fmt::format("{} belongs to no option{}", words.front(), rest);
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) names.push_back(option->get_name());
    return fmt::format("there is no {}; the nearest is {}{}", words.front(), nearest(words.front(), names, 1).front(),
                       rest);
}

}  // namespace

int run(CLI::App& app, int argc, char** argv, const std::function<void()>& body) {
    app.set_version_flag("--version", fmt::format("{} {}", app.get_name(), version));
    // A file that grows past the shell's limit is then an error of the write, and the program can say so.
    std::signal(SIGXFSZ, SIG_IGN);
    try {
        app.parse(argc, argv);
        body();
        return 0;
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        fmt::print(stderr, "{}: {} (--help lists the options)\n", app.get_name(), wrong_usage(app, error));
        return 2;
    } catch (const memory::OutOfMemory& error) {
        fmt::print(stderr, "{}: {}\n{}", app.get_name(), error.what(), error.report().to_string());
        return 3;
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "{}: the host's memory does not suffice; use a smaller batch or less data\n",
                   app.get_name());
        return 3;
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
        return 1;
    }
}

}  // namespace headroom::program
