#include <headroom/examples/program/outcome.hpp>

#include <csignal>
#include <exception>
#include <new>

#include <fmt/format.h>

#include <headroom/memory/out_of_memory.hpp>
#include <headroom/version.hpp>

namespace headroom::program {

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
        fmt::print(stderr, "{}: {} (--help lists the options)\n", app.get_name(), error.what());
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
