#include <headroom/examples/program/outcome.hpp>

#include <exception>

#include <fmt/format.h>

#include <headroom/memory/out_of_memory.hpp>

namespace headroom::program {

int run(CLI::App& app, int argc, char** argv, const std::function<void()>& body) {
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        fmt::print(stderr, "{}: {} (--help lists the options)\n", app.get_name(), error.what());
        return 2;
    }
    try {
        body();
        return 0;
    } catch (const OutOfMemory& error) {
        fmt::print(stderr, "{}: {}\n{}", app.get_name(), error.what(), error.report().text());
        return 3;
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
        return 1;
    }
}

}  // namespace headroom::program
